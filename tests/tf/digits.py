"""Data for the tests: the digits of the repository as MNIST has them."""
import os
import struct

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def write_mnist(folder):
    """The digits of the repository, enlarged to 28 x 28, in MNIST's form."""
    rows = []
    with open(os.path.join(ROOT, 'examples', 'data', 'digits.csv')) as file:
        for line in file:
            rows.append([int(one) for one in line.split(',')])
    for name, part in (('train', rows[:1200]), ('t10k', rows[1200:1700])):
        images = bytearray()
        for row in part:
            for y in range(28):
                for x in range(28):
                    inside = 2 <= y < 26 and 2 <= x < 26
                    images.append(row[(y - 2) // 3 * 8 + (x - 2) // 3] * 15
                                  if inside else 0)
        with open('%s/%s-images-idx3-ubyte' % (folder, name), 'wb') as file:
            file.write(struct.pack('>4I', 2051, len(part), 28, 28) + images)
        with open('%s/%s-labels-idx1-ubyte' % (folder, name), 'wb') as file:
            file.write(struct.pack('>2I', 2049, len(part))
                       + bytes(row[64] for row in part))
