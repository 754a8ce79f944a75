"""A cluster of machines that never was: Flux's hardware (section 3), under the shipped coordinator and policies.

    hardware    the numbers of the paper
    traffic     what producers send, and what disturbs the machines
    cluster     buffers, queues, processing, disks: a slice of time after the other
    run         epochs: what sites did is the load that policies are shown, and what these decide is carried out

Tuples are counted, not made. Within a slice of a millisecond or two, what arrives is drawn by lot, with a seed, and
what a machine processes is bounded by its time. So 32 machines take seconds for a minute, and are the same each time.
"""

from watersmeet.lab.simulator.cluster import Cluster
from watersmeet.lab.simulator.hardware import Hardware
from watersmeet.lab.simulator.run import Course, simulate
from watersmeet.lab.simulator.traffic import Disturbance, Traffic

__all__ = ["Cluster", "Course", "Disturbance", "Hardware", "Traffic", "simulate"]
