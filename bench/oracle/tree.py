"""Statements as trees of text, and how to make a failing one smaller.

A `Node` is a list of texts and nodes. What it is (`kind`) says what may stand in its place: a node
may become one of its descendants of the same kind or one of its `simpler` texts, an optional node may go,
a list may lose elements. Nothing here knows SQL: a smaller statement that is none fails on both servers
and is not kept.
"""


class Node:
    __slots__ = ("kind", "parts", "simpler", "value", "cols", "flags")

    def __init__(self, kind, *parts, simpler=(), value=None):
        self.kind, self.parts, self.simpler, self.value = kind, list(parts), list(simpler), value
        self.cols, self.flags = None, None

    def render(self, parameters=None):
        """The text. With a list, literals that can be parameters become `?` and are added to it."""
        out = []
        self.write(out, parameters)
        return "".join(out)

    def write(self, out, parameters):
        if parameters is not None and self.value is not None:
            parameters.append(self.value[0])
            out.append("?")
            return
        for part in self.parts:
            if isinstance(part, Node):
                part.write(out, parameters)
            else:
                out.append(part)

    def __str__(self):
        return self.render()

    def nodes(self):
        yield self
        for part in self.parts:
            if isinstance(part, Node):
                yield from part.nodes()


class Items(Node):
    """Nodes between separators; at least `least` of them stay."""
    __slots__ = ("separator", "least")

    def __init__(self, separator, items, least=1):
        super().__init__("items", *items)
        self.separator, self.least = separator, least

    def write(self, out, parameters):
        for n, part in enumerate(self.parts):
            if n:
                out.append(self.separator)
            if isinstance(part, Node):
                part.write(out, parameters)
            else:
                out.append(part)


def optional(*parts):
    return Node("optional", *parts)


def candidates(root):
    """Functions that make the tree smaller in place and return how to undo it; large steps first."""
    for node in list(root.nodes()):
        if node.kind == "optional" and node.parts:
            yield lambda node=node: replace(node, [])
    for node in list(root.nodes()):
        if isinstance(node, Items):
            size = len(node.parts)
            cut = size // 2
            while cut:
                for start in range(0, size, cut):
                    if size - cut >= node.least and start + cut <= size:
                        yield lambda node=node, start=start, cut=cut, size=size: (
                            replace(node, node.parts[:start] + node.parts[start + cut:])
                            if len(node.parts) == size else None)
                cut //= 2
    for node in list(root.nodes()):
        if node.kind in ("optional", "items", "text"):
            continue
        for inner in node.nodes():
            if inner is not node and inner.kind == node.kind:
                yield lambda node=node, inner=inner: replace(node, [inner])
        for text in node.simpler:
            if node.parts != [text]:
                yield lambda node=node, text=text: replace(node, [text])


def replace(node, parts):
    before, value = node.parts, node.value
    node.parts, node.value = parts, None

    def undo():
        node.parts, node.value = before, value
    return undo


def shrink(root, fails, tries=2000):
    """Makes `root` as small as it gets while `fails(root)` holds."""
    again = True
    while again and tries > 0:
        again = False
        for step in candidates(root):
            if tries <= 0:
                break
            before = len(root.render())
            undo = step()
            if undo is None:
                continue
            if len(root.render()) >= before:
                undo()
                continue
            tries -= 1
            if fails(root):
                again = True
                break
            undo()
    return root
