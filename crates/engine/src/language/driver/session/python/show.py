

METHODS = {
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "image/svg+xml": "_repr_svg_",
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "application/pdf": "_repr_pdf_",
    "application/json": "_repr_json_",
    "application/javascript": "_repr_javascript_",
}


# Forms beyond a value's own, by MIME type: functions that return one or None.
FORMS = {}


def more_forms(value):
    found = {}
    for kind, form in FORMS.items():
        try:
            part = form(value)
        except Exception:
            # A form that cannot be had is not shown.
            continue
        if part is not None:
            found[kind] = part
    return found


def bundle_of(value):
    """Every form in which a value shows itself."""
    if is_figure(value):
        # Drawing closes it.
        return {**more_forms(value), "text/plain": text_of(value), **picture(value)}
    data = {"text/plain": text_of(value), **more_forms(value)}
    # A class has the methods too, but they are its instances'.
    if isinstance(value, type):
        return data
    for kind, name in METHODS.items():
        part = ask(value, name)
        if part is not None:
            data[kind] = part
    more = ask(value, "_repr_mimebundle_", include=None, exclude=None)
    data.update(more if isinstance(more, dict) else {})
    return data


def ask(value, name, **arguments):
    try:
        method = getattr(value, name, None)
        answer = method(**arguments) if callable(method) else None
    except Exception:
        # A form that cannot be had is not shown; the plain one always is.
        return None
    # Data with metadata.
    return answer[0] if isinstance(answer, tuple) and answer else answer


def text_of(value):
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"


def sendable(data):
    """The forms as JSON has them, without those that are too large; their names are told instead."""
    sent, dropped, room = {}, [], MOST
    for kind, part in data.items():
        if isinstance(part, (bytes, bytearray, memoryview)):
            part = binascii.b2a_base64(part, newline=False).decode()
        try:
            size = len(json.dumps(part))
        except (TypeError, ValueError, RecursionError):
            dropped.append(str(kind))
            continue
        if size > room and kind == "text/plain" and isinstance(part, str):
            part = shortened(part, room // 16)
            size = len(json.dumps(part))
        if size > room:
            dropped.append(str(kind))
            continue
        room -= size
        sent[str(kind)] = part
    return {"data": sent, "dropped": dropped} if dropped else {"data": sent}


def shortened(text, most):
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[... {len(text) - most // 2 * 2} characters cut ...]\n{text[-(most // 2) :]}"


def display(*values, **options):
    """Shows values in every form they have."""
    for value in values:
        data = value if options.get("raw") and isinstance(value, dict) else bundle_of(value)
        WIRES.tell({"event": "display", "id": CELL.id, **sendable(data)})


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def picture(figure):
    """A figure as PNG; it is not shown again at the end of the cell."""
    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format="png", bbox_inches="tight")
    except Exception as error:
        return {"text/plain": f"<a figure that cannot be drawn: {type(error).__name__}: {error}>"}
    sys.modules["matplotlib.pyplot"].close(figure) if "matplotlib.pyplot" in sys.modules else None
    return {"image/png": buffer.getvalue()}


def show_figures(*_, **__):
    """Shows the figures that are open, and closes them."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    for number in pyplot.get_fignums() if hasattr(pyplot, "get_fignums") else ():
        figure = pyplot.figure(number)
        if figure.get_axes() or figure.texts or figure.images:
            display(figure)
        pyplot.close(figure)


class Figures:
    """A backend of matplotlib that draws to memory; `show` sends. It is chosen as soon as matplotlib is imported."""

    name = "saggar_figures"
    searching = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in ("matplotlib", cls.name) or cls.searching:
            return None
        if name == cls.name:
            return importlib.machinery.ModuleSpec(name, cls)
        cls.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            cls.searching = False
        loader = getattr(spec, "loader", None)
        if loader is not None:
            load = loader.exec_module
            loader.exec_module = lambda module: (load(module), cls.choose(module))
        return spec

    @classmethod
    def choose(cls, matplotlib):
        # A variable would be the children's too, and they have no such module.
        if "MPLBACKEND" not in os.environ:
            matplotlib.rcParams["backend"] = f"module://{cls.name}"

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        from matplotlib.backends import backend_agg

        for name in ("FigureCanvas", "FigureManager", "new_figure_manager", "new_figure_manager_given_figure"):
            if hasattr(backend_agg, name):
                setattr(module, name, getattr(backend_agg, name))
        module.FigureCanvas = backend_agg.FigureCanvasAgg
        module.show = show_figures
