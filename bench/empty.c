/* empty.c: as little as a program can do in a job: join, meet once, leave. What
 * it takes beyond running alone is the launcher's. With -DMPI the same for
 * OpenMPI. */
#ifdef MPI
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
#else
#include <poseidon.h>

int main(void)
{
    struct psd_session *session;

    if (psd_open(&session) != PSD_OK || psd_barrier(session) != PSD_OK) {
        return 1;
    }
    psd_close(session);
    return 0;
}
#endif
