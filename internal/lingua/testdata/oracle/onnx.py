"""Writes a token classifier as an ONNX model, the way torch exports one."""

import struct

import numpy as np


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n)


def data(field, b):
    if isinstance(b, str):
        b = b.encode()
    return varint(field << 3 | 2) + varint(len(b)) + b


FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
KINDS = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int64": INT64}


def tensor(name, a):
    a = np.ascontiguousarray(a)
    return (
        b"".join(number(1, d) for d in a.shape)
        + number(2, KINDS[str(a.dtype)])
        + data(8, name)
        + data(9, a.tobytes())
    )


def attribute(name, v):
    if isinstance(v, float):
        return data(1, name) + varint(2 << 3 | 5) + struct.pack("<f", v) + number(20, 1)
    if isinstance(v, int):
        return data(1, name) + number(3, v) + number(20, 2)
    return data(1, name) + b"".join(number(8, i) for i in v) + number(20, 7)


class Graph:
    def __init__(self, int8=False):
        self.nodes, self.initializers, self.n, self.int8 = [], [], 0, int8

    def const(self, a, name=None):
        self.n += 1
        name = name or f"c{self.n}"
        self.initializers.append(data(5, tensor(name, a)))
        return name

    def many(self, op, inputs, outputs, **attributes):
        self.n += 1
        names = [f"t{self.n}_{i}" for i in range(outputs)]
        node = b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in names)
        node += data(3, f"n{self.n}") + data(4, op)
        node += b"".join(data(5, attribute(k, v)) for k, v in attributes.items())
        self.nodes.append(data(1, node))
        return names

    def op(self, op, *inputs, **attributes):
        return self.many(op, inputs, 1, **attributes)[0]

    def floats(self, v):
        return self.const(np.array(v, np.float32))

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def linear(self, x, w, b):
        """x·wᵀ + b, with dynamically quantized activations where int8 is asked for."""
        if not self.int8:
            return self.op("Add", self.op("MatMul", x, self.const(w.T)), self.const(b))
        scale = np.abs(w).max(1) / 127
        q = np.clip(np.rint(w / scale[:, None]), -127, 127).astype(np.int8)
        x8, xs, xz = self.many("DynamicQuantizeLinear", [x], 3)
        zero = self.const(np.zeros(len(scale), np.int8))
        y = self.op("MatMulInteger", x8, self.const(q.T), xz, zero)
        y = self.op("Mul", self.op("Cast", y, to=FLOAT), self.op("Mul", xs, self.const(scale.astype(np.float32))))
        return self.op("Add", y, self.const(b))


def write(path, config, weights, int8=False):
    c, w, g = config, weights, Graph(int8)
    prefix = "roberta." if c["model_type"] == "xlm-roberta" else "bert."
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    size = hidden // heads

    def norm(x, name):
        return g.op(
            "LayerNormalization",
            x,
            g.const(w[name + ".weight"]),
            g.const(w[name + ".bias"]),
            axis=-1,
            epsilon=c["layer_norm_eps"],
        )

    def dense(x, name):
        return g.linear(x, w[name + ".weight"], w[name + ".bias"])

    e = prefix + "embeddings."
    words = g.op("Gather", g.const(w[e + "word_embeddings.weight"]), "input_ids")
    ones = g.op("ConstantOfShape", g.op("Shape", "input_ids"), **{})
    ones = g.op("Add", g.op("Cast", ones, to=INT64), g.ints(1))
    if prefix == "roberta.":
        pad = g.ints(c["pad_token_id"])
        real = g.op("Cast", g.op("Not", g.op("Equal", "input_ids", pad)), to=INT64)
        positions = g.op("Add", g.op("Mul", g.op("CumSum", real, g.const(np.array(1, np.int64))), real), pad)
    else:
        positions = g.op("Sub", g.op("CumSum", ones, g.const(np.array(1, np.int64))), g.ints(1))
    x = g.op("Add", words, g.op("Gather", g.const(w[e + "position_embeddings.weight"]), positions))
    x = g.op("Add", x, g.const(w[e + "token_type_embeddings.weight"][0]))
    x = norm(x, e + "LayerNorm")
    mask = g.op("Unsqueeze", g.op("Cast", "attention_mask", to=FLOAT), g.ints(1, 2))
    mask = g.op("Mul", g.op("Sub", g.floats(1), mask), g.floats(-3.4e38))

    def split(y, order):
        return g.op("Transpose", g.op("Reshape", y, g.ints(0, 0, heads, size)), perm=order)

    for i in range(c["num_hidden_layers"]):
        p = f"{prefix}encoder.layer.{i}."
        q = split(dense(x, p + "attention.self.query"), [0, 2, 1, 3])
        k = split(dense(x, p + "attention.self.key"), [0, 2, 3, 1])
        v = split(dense(x, p + "attention.self.value"), [0, 2, 1, 3])
        s = g.op("Div", g.op("MatMul", q, k), g.floats(size**0.5))
        s = g.op("Softmax", g.op("Add", s, mask), axis=-1)
        y = g.op("Transpose", g.op("MatMul", s, v), perm=[0, 2, 1, 3])
        y = dense(g.op("Reshape", y, g.ints(0, 0, hidden)), p + "attention.output.dense")
        x = norm(g.op("Add", y, x), p + "attention.output.LayerNorm")
        y = dense(x, p + "intermediate.dense")
        erf = g.op("Add", g.op("Erf", g.op("Div", y, g.floats(2**0.5))), g.floats(1))
        y = g.op("Mul", g.op("Mul", y, erf), g.floats(0.5))
        x = norm(g.op("Add", dense(y, p + "output.dense"), x), p + "output.LayerNorm")
    g.int8 = False
    last = dense(x, "classifier")
    g.nodes.append(data(1, data(1, last) + data(2, "logits") + data(3, "logits") + data(4, "Identity")))

    def value(name, kind):
        shape = b"".join(data(1, data(2, d)) for d in ("batch", "sequence"))
        if kind == FLOAT:
            shape += data(1, number(1, 2))
        return data(1, name) + data(2, data(1, number(1, kind) + data(2, shape)))

    graph = b"".join(g.nodes) + data(2, "classifier") + b"".join(g.initializers)
    graph += data(11, value("input_ids", INT64)) + data(11, value("attention_mask", INT64))
    graph += data(12, value("logits", FLOAT))
    with open(path, "wb") as f:
        f.write(number(1, 8) + data(7, graph) + data(8, data(1, "") + number(2, 17)))
