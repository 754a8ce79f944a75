#!/bin/sh
# Prints the home of a Java that Spark can use; installs one where that takes no questions (root, with apt-get).
set -eu

oldest=17

# The home of the Java at $1, if it is new enough; Java itself is asked, for $1 may be a link or a wrapper.
home_if_fits() {
    properties=$("$1" -XshowSettings:properties -version 2>&1) || return 1
    version=$(printf '%s\n' "$properties" | sed -n 's/^ *java.specification.version = \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge "$oldest" ] || return 1
    printf '%s\n' "$properties" | sed -n 's/^ *java.home = //p'
}

find_java() {
    on_path=$(command -v java || true)
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$on_path" /usr/lib/jvm/*/bin/java /opt/java/*/bin/java; do
        if [ -x "$java" ] && home_if_fits "$java"; then
            return
        fi
    done
    return 1
}

install_java() {
    [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
    echo "Installing Java $oldest ..." >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update > /dev/null 2>&1 || true
    for package in "openjdk-$oldest-jre-headless" default-jre-headless; do
        apt-get -qq install -y --no-install-recommends "$package" > /dev/null 2>&1 && return
    done
    return 1
}

find_java || { install_java && find_java; } || {
    echo "Spark needs Java $oldest or later and none was found: install one" \
        "(on Debian: apt-get install openjdk-$oldest-jre-headless) or set JAVA_HOME to it, then run make again." >&2
    exit 1
}
