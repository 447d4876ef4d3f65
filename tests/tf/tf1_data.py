"""Small data sets in the files that the old tutorials read."""
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


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


def write_cifar(folder):
    """A bright bar in one of ten places, on noise."""
    folder = os.path.join(folder, 'cifar-10-batches-bin')
    os.makedirs(folder)
    for name in [*('data_batch_%d' % at for at in range(1, 6)),
                 'test_batch']:
        with open(os.path.join(folder, name + '.bin'), 'wb') as file:
            for at in range(40):
                label = at % 10
                plane = bytearray((at * 7 + i * 13) % 50 for i in range(1024))
                for row in range(3 * label, 3 * label + 4):
                    plane[row * 32:row * 32 + 32] = bytes([250]) * 32
                file.write(bytes([label]) + bytes(plane) * 3)
