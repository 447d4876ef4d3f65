"""Sources that are written for Python 2, translated while they are loaded.

A source is of that kind when Python 3 cannot compile it or when it uses what
only Python 2 has (xrange, iteritems ...). lib2to3 translates it, or fissix,
which is the same kept up to date, where Python has dropped lib2to3. One thing
no translator does: `/` between integers rounds down in Python 2. Where the
source does not ask for the other division, it gets the old one.
"""
import ast
import importlib
import importlib.machinery
import importlib.util
import os
import sys

_NAMES = {"xrange", "unicode", "raw_input", "long", "basestring", "unichr",
          "execfile", "reduce", "file", "cmp", "reload", "izip"}
_MODULES = {"urllib2", "cPickle", "ConfigParser", "StringIO", "cStringIO",
            "Queue", "urlparse", "httplib", "__builtin__", "commands",
            "SocketServer", "HTMLParser", "Tkinter", "copy_reg", "thread"}
_METHODS = {"iteritems", "itervalues", "iterkeys", "has_key"}
_LEFT_OUT = {"ws_comma", "idioms", "buffer", "set_literal", "future"}

_tool = None


class Refused(SystemExit):
    """The source is of Python 2 and nothing here can translate it."""


def compiled(data, path):
    """The code object of a source (bytes): translated where it has to be.
    None: it is no Python 2, whoever asks may load it as usual."""
    text, why = _diagnosed(data, path)
    if text is None:
        return None
    tool = _refactoring(path)
    text = str(tool.refactor_string(text if text.endswith("\n")
                                    else text + "\n", path))
    from poseidon import _job
    _job.warn_once(path, "%s is written for Python 2 (%s): translated with "
                   "%s" % (os.path.basename(path), why, _tool))
    tree = ast.parse(text, path)
    if not _asks_for_division(tree):
        tree = ast.fix_missing_locations(_Division().visit(tree))
    return compile(tree, path, "exec", dont_inherit=True)


def is_python2(path):
    """Would compiled() translate this file?"""
    try:
        with open(path, "rb") as file:
            return _diagnosed(file.read(), path)[0] is not None
    except OSError:
        return False


def _diagnosed(data, path):
    """The text and what shows that it is Python 2; (None, None): it is not,
    or it is wrong in another way and Python may tell."""
    try:
        text = importlib.util.decode_source(data)
    except (SyntaxError, UnicodeDecodeError):
        return None, None
    try:
        tree = ast.parse(text, path)
    except SyntaxError as error:
        if _parses_as_2(text, path):
            return text, "line %s" % error.lineno
        return None, None
    why = _used(tree)
    return (text, why) if why else (None, None)


def _used(tree):
    """What only Python 2 has and the module does not bring itself."""
    bound, loaded = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                loaded.setdefault(node.id, node.lineno)
            else:
                bound.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            if isinstance(node, ast.ImportFrom):
                if any(one.name == "*" for one in node.names):
                    return None
                names = [node.module or ""] if not node.level else []
            else:
                names = [one.name for one in node.names]
            for name in names:
                if name.split(".")[0] in _MODULES and not _is_tried(
                        tree, node):
                    return "import %s" % name
            bound.update((one.asname or one.name).split(".")[0]
                         for one in node.names)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Attribute) and node.attr in _METHODS:
            if isinstance(node.value, ast.Name) and node.value.id == "six":
                continue
            return ".%s" % node.attr
    names = sorted(name for name in loaded if name in _NAMES - bound)
    if names and not _is_handled(tree):
        return names[0]
    return None


def _is_handled(tree):
    """Does the module itself look which Python it runs on?"""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in (
                "version_info", "PY2", "PY3"):
            return True
        if isinstance(node, ast.ExceptHandler) and isinstance(
                node.type, ast.Name) and node.type.id == "NameError":
            return True
    return False


def _is_tried(tree, wanted):
    """Is this import inside a `try`?"""
    return any(isinstance(node, ast.Try) and wanted in ast.walk(node)
               for node in ast.walk(tree))


def _library():
    """lib2to3 or fissix: their modules `refactor` and its folder of fixes."""
    global _tool
    import warnings
    for name in ("lib2to3", "fissix"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module = importlib.import_module(name + ".refactor")
        except ImportError:
            continue
        _tool = name
        return module, name + ".fixes"
    return None, None


def _refactoring(path):
    library, fixes = _library()
    if library is None:
        raise Refused(
            "poseidon: %s is written for Python 2, and Python %d.%d has no "
            "lib2to3 any more: install the package fissix, or use Python "
            "3.12 or older" % (path, *sys.version_info[:2]))
    names = [name for name in library.get_fixers_from_package(fixes)
             if name.rpartition("fix_")[2] not in _LEFT_OUT]
    return library.RefactoringTool(names)


def _parses_as_2(text, path):
    """Python 3 refuses it: would Python 2 take it? Only then is it worth a
    translation; any other mistake is for Python to tell."""
    library, _ = _library()
    if library is None:
        lines = text.splitlines()
        return any(line.lstrip().startswith(("print ", "exec ", "raise "))
                   or ", e:" in line for line in lines)
    try:
        ast.parse(str(_refactoring(path).refactor_string(
            text if text.endswith("\n") else text + "\n", path)))
        return True
    except Exception:  # the parser's own classes, of either library
        return False


def _asks_for_division(tree):
    return any(isinstance(node, ast.ImportFrom)
               and node.module == "__future__"
               and any(one.name == "division" for one in node.names)
               for node in ast.walk(tree))


class _Division(ast.NodeTransformer):
    """a / b becomes divide(a, b)."""

    def visit_Module(self, node):
        self.generic_visit(node)
        at = 0
        body = node.body
        if body and isinstance(body[0], ast.Expr) and isinstance(
                getattr(body[0], "value", None), ast.Constant):
            at = 1
        while at < len(body) and isinstance(body[at], ast.ImportFrom) \
                and body[at].module == "__future__":
            at += 1
        body.insert(at, ast.ImportFrom(
            module="poseidon.tf1.python2",
            names=[ast.alias(name="divide", asname="_psd_divide")], level=0))
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div):
            return node
        return ast.copy_location(self._call(node.left, node.right), node)

    def visit_AugAssign(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Div) or not isinstance(
                node.target, ast.Name):
            return node
        left = ast.Name(id=node.target.id, ctx=ast.Load())
        return ast.copy_location(ast.Assign(
            targets=[node.target], value=self._call(left, node.value)), node)

    @staticmethod
    def _call(left, right):
        return ast.Call(func=ast.Name(id="_psd_divide", ctx=ast.Load()),
                        args=[left, right], keywords=[])


def divide(a, b):
    """a / b as Python 2 has it: integers round down, and so do arrays and
    tensors of them."""
    if _is_integer(a) and _is_integer(b):
        return a // b
    return a / b


def _is_integer(value):
    if isinstance(value, (int, bool)):
        return True
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return False
    if hasattr(dtype, "is_integer"):  # of TensorFlow
        return dtype.is_integer
    return getattr(dtype, "kind", "") in "iub"


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module of the script's folder; what was translated is not
    kept on disk, where another Python might take it."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        code = compiled(self.get_data(path), path)
        return super().get_code(fullname) if code is None else code


class Finder:
    """Finds modules below the script's folder, as Python itself would."""

    def __init__(self, folder):
        self.folder = os.path.join(os.path.realpath(folder), "")

    def find_spec(self, name, path=None, target=None):
        if path is None and (name in sys.builtin_module_names
                             or name == "tensorflow"):
            return None
        places = path
        if places is None:
            places = [one for one in sys.path if os.path.join(
                os.path.realpath(one or "."), "").startswith(self.folder)]
        spec = importlib.machinery.PathFinder.find_spec(name, places, target)
        if (spec is None or type(spec.loader) is not
                importlib.machinery.SourceFileLoader
                or not self._is_below(spec.origin)):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec

    def _is_below(self, path):
        path = os.path.realpath(path)
        return path.startswith(self.folder) and (
            "%ssite-packages%s" % (os.sep, os.sep) not in path)


def install(folder):
    """Translate the modules of the script's folder, too. They stand in
    front of the path, so it changes nothing about which module is found."""
    at = next((i for i, one in enumerate(sys.meta_path)
               if one is importlib.machinery.PathFinder), len(sys.meta_path))
    sys.meta_path.insert(at, Finder(folder))
