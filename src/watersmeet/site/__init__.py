"""What happens at a site: receive rows, keep them, join them, hand results on. It knows no Spark."""
