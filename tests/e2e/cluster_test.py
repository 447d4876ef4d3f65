#!/usr/bin/env python3
"""psd_run -c on a real cluster: hosts of our own with sshd, see tests/cluster.

    cluster_test.py BUILD_DIR [PATTERN]

Prints TAP. Root only, and only where namespaces are allowed; elsewhere one
line says why not. After every test, of all groups, the processes of all hosts
are compared with those before it, and so are TMPDIR and /dev/shm. The times
are scaled down; PSD_TEST_SOAK=1 runs the faults with psd_run's own defaults.
"""
import sys

import cluster_job
import common

import cluster_faults  # noqa: F401  each group adds its tests
if not cluster_job.SOAK:
    import cluster_setup  # noqa: F401
    import cluster_work  # noqa: F401
    import cluster_hostile  # noqa: F401


def main():
    why = cluster_job.Cluster.missing()
    if why is not None:
        print('1..1\nok 1 - psd_run on a cluster # SKIP %s' % why)
        return 0
    cluster_job.start_cluster()
    try:
        return common.main(cluster_job.note_before,
                           cluster_job.check_nothing_left)
    finally:
        cluster_job.stop_cluster()


if __name__ == '__main__':
    sys.exit(main())
