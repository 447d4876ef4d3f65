/* port_test.c: a port that somebody listens at is passed over. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/claim.h"
#include "launch/port.h"

static void a_taken_port_is_passed_over(void **state)
{
    uint16_t first = port_find(20000, 3);
    struct sockaddr_in address = { .sin_family = AF_INET };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    assert_true(first >= 20000);
    address.sin_port = htons((uint16_t)(first + 1));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)),
                     0);
    assert_int_equal(listen(fd, 1), 0);
    assert_true(port_find(first, 3) > first + 1);
    close(fd);
    assert_int_equal(port_find(UINT16_MAX, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_taken_port_is_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
