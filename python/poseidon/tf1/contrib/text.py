"""tf.contrib.learn.preprocessing: words to numbers."""
import pickle
import re

import numpy

_WORDS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+",
                    re.UNICODE)


def tokenizer(iterator):
    for value in iterator:
        yield _WORDS.findall(value)


class CategoricalVocabulary:
    def __init__(self, unknown_token="<UNK>"):
        self._mapping, self._reverse = {unknown_token: 0}, [unknown_token]
        self._frozen, self._count = False, {}

    def __len__(self):
        return len(self._mapping)

    def freeze(self, freeze=True):
        self._frozen = freeze

    def get(self, word):
        if word not in self._mapping:
            if self._frozen:
                return 0
            self._mapping[word] = len(self._mapping)
            self._reverse.append(word)
        return self._mapping[word]

    def add(self, word, count=1):
        if self.get(word):
            self._count[word] = self._count.get(word, 0) + count

    def trim(self, minimum):
        kept = sorted((word for word, count in self._count.items()
                       if count > minimum),
                      key=lambda word: -self._count[word])
        self._reverse = self._reverse[:1] + kept
        self._mapping = {word: at for at, word in enumerate(self._reverse)}

    def reverse(self, class_id):
        return self._reverse[class_id]


class VocabularyProcessor:
    def __init__(self, max_document_length, min_frequency=0, vocabulary=None,
                 tokenizer_fn=None):
        self.max_document_length = max_document_length
        self.min_frequency = min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents, unused_y=None):
        for tokens in self._tokenizer(raw_documents):
            for token in tokens:
                self.vocabulary_.add(token)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents, unused_y=None):
        raw_documents = list(raw_documents)
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents):
        for tokens in self._tokenizer(raw_documents):
            row = numpy.zeros(self.max_document_length, numpy.int64)
            for at, token in enumerate(tokens[:self.max_document_length]):
                row[at] = self.vocabulary_.get(token)
            yield row

    def reverse(self, documents):
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(one) for one in row)

    def save(self, filename):
        with open(filename, "wb") as file:
            pickle.dump(self, file)

    @classmethod
    def restore(cls, filename):
        with open(filename, "rb") as file:
            return pickle.load(file)
