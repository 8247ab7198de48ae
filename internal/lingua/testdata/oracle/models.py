"""Makes small models of both families, or one of a given shape with random weights.

    models.py TEXTS FOLDER                      bert/ and xlmr/, tokenizers trained on TEXTS
    models.py --shape LAYERS HIDDEN HEADS VOCAB FOLDER    for benchmarks: float32, ONNX float32 and int8

Needs numpy and, for the first form, spm_train.
"""

import base64
import collections
import glob
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
import onnx

NEW = 100  # rows for [NEW0] … [NEW99], which the reference adds


def config(family, layers, hidden, heads, vocab, positions=512):
    xlmr = family == "xlmr"
    return {
        "architectures": ["XLMRobertaForTokenClassification" if xlmr else "BertForTokenClassification"],
        "model_type": "xlm-roberta" if xlmr else "bert",
        "hidden_size": hidden,
        "intermediate_size": hidden * 4,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-05 if xlmr else 1e-12,
        "max_position_embeddings": positions + (2 if xlmr else 0),
        "type_vocab_size": 1 if xlmr else 2,
        "vocab_size": vocab,
        "pad_token_id": 1 if xlmr else 0,
        "num_labels": 2,
    }


def weights(c, seed, half):
    r = np.random.default_rng(seed)
    p = "roberta." if c["model_type"] == "xlm-roberta" else "bert."
    h, inner = c["hidden_size"], c["intermediate_size"]
    w = {}

    def put(name, shape, sd):
        a = r.standard_normal(shape, np.float32) * np.float32(sd)
        w[name] = a.astype(np.float16).astype(np.float32) if half else a

    def norm(name):
        put(name + ".weight", h, 0.1)
        w[name + ".weight"] = (1 + w[name + ".weight"]).astype(np.float16).astype(np.float32)
        put(name + ".bias", h, 0.1)

    def dense(name, n, m, sd=None):
        put(name + ".weight", (n, m), sd or 1.2 / m**0.5)
        put(name + ".bias", n, 0.05)

    put(p + "embeddings.word_embeddings.weight", (c["vocab_size"], h), 1)
    put(p + "embeddings.position_embeddings.weight", (c["max_position_embeddings"], h), 0.3)
    put(p + "embeddings.token_type_embeddings.weight", (c["type_vocab_size"], h), 0.3)
    norm(p + "embeddings.LayerNorm")
    for i in range(c["num_hidden_layers"]):
        l = f"{p}encoder.layer.{i}."
        for part in ("query", "key", "value"):
            dense(l + "attention.self." + part, h, h)
        dense(l + "attention.output.dense", h, h)
        norm(l + "attention.output.LayerNorm")
        dense(l + "intermediate.dense", inner, h)
        dense(l + "output.dense", h, inner)
        norm(l + "output.LayerNorm")
    dense("classifier", 2, h, 0.3)
    return w


def safetensors(path, w, half):
    header, at, blobs = {}, 0, []
    for name, a in w.items():
        b = (a.astype(np.float16) if half else a).tobytes()
        header[name] = {"dtype": "F16" if half else "F32", "shape": list(a.shape), "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for b in blobs:
            f.write(b)


def save(folder, c, w, half):
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(c, f, indent=2)
        f.write("\n")
    safetensors(os.path.join(folder, "model.safetensors"), w, half)
    onnx.write(os.path.join(folder, "model.onnx"), c, w)


def tokens_of(text):
    cjk = "\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\U00020000-\U0002ffff"
    for run in re.findall(rf"[{cjk}]|[^\s{cjk}]+", text):
        part = ""
        for ch in run:
            if unicodedata.category(ch)[0] == "P" or ch in "$+<=>^`|~":
                if part:
                    yield part
                yield ch
                part = ""
            else:
                part += ch
        if part:
            yield part


def wordpiece(texts, size):
    words = collections.Counter(w for t in texts for w in tokens_of(t) if len(w) <= 40)
    chars = collections.Counter(ch for t in texts for ch in t if not ch.isspace() and ch.isprintable())
    # What is seen once stays unknown, so that there are unknown words.
    known = sorted(ch for ch, n in chars.items() if n > 1)
    pieces = collections.Counter()
    for w, n in words.items():
        for i in range(1, len(w)):
            for j in range(i + 2, min(len(w), i + 8) + 1):
                pieces["##" + w[i:j]] += n
        for j in range(2, min(len(w), 10)):
            pieces[w[:j]] += n
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + known + ["##" + ch for ch in known]
    seen = set(vocab)
    best = [w for w, n in words.most_common() if n > 2] + [p for p, _ in sorted(pieces.items(), key=lambda e: (-e[1], e[0]))]
    for w in best:
        if len(vocab) >= size:
            break
        if w not in seen:
            seen.add(w)
            vocab.append(w)
    return vocab


def added(tokens, lstrip=()):
    return [
        {"id": i, "content": t, "single_word": False, "lstrip": t in lstrip, "rstrip": False, "normalized": False, "special": True}
        for i, t in tokens
    ]


def bert_tokenizer(vocab):
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added(list(enumerate(vocab[:5]))),
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": False},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {t: i for i, t in enumerate(vocab)},
        },
    }


def fields(b):
    at = 0

    def read():
        nonlocal at
        n = shift = 0
        while True:
            c = b[at]
            at += 1
            n |= (c & 0x7F) << shift
            if c < 0x80:
                return n
            shift += 7

    while at < len(b):
        key = read()
        kind = key & 7
        if kind == 0:
            v = read()
        elif kind == 2:
            n = read()
            v, at = b[at : at + n], at + n
        else:
            n = 4 if kind == 5 else 8
            v, at = b[at : at + n], at + n
        yield key >> 3, v


def unigram(texts, size):
    with tempfile.TemporaryDirectory() as folder:
        corpus = os.path.join(folder, "corpus")
        with open(corpus, "w") as f:
            for t in texts:
                f.write(t.replace("\x00", " ") + "\n")
        subprocess.run(
            ["spm_train", "--input=" + corpus, "--model_prefix=" + os.path.join(folder, "m"), "--model_type=unigram",
             f"--vocab_size={size}", "--hard_vocab_limit=false", "--character_coverage=0.998",
             "--normalization_rule_name=nmt_nfkc", "--num_threads=1", "--minloglevel=2", "--max_sentence_length=20000"],
            check=True,
        )  # fmt: skip
        model = open(os.path.join(folder, "m.model"), "rb").read()
    pieces, charsmap = [], b""
    for field, v in fields(model):
        if field == 1:
            piece = dict(fields(v))
            pieces.append([piece[1].decode(), float(struct.unpack("<f", piece[2])[0])])
        elif field == 3:
            charsmap = dict(fields(v))[2]
    # spm: <unk> <s> </s>; XLM-RoBERTa: <s> <pad> </s> <unk> … <mask>
    vocab = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0]] + pieces[3:] + [["<mask>", 0.0]]
    specials = [(0, "<s>"), (1, "<pad>"), (2, "</s>"), (3, "<unk>"), (len(vocab) - 1, "<mask>")]
    space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return len(vocab), {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added(specials, lstrip=("<mask>",)),
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]},
        "post_processor": None,
        "decoder": space,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": False},
    }


def main():
    if sys.argv[1] == "--shape":
        layers, hidden, heads, vocab = map(int, sys.argv[2:6])
        folder = sys.argv[6]
        os.makedirs(folder, exist_ok=True)
        c = config("bert", layers, hidden, heads, vocab)
        w = weights(c, 1, False)
        save(folder, c, w, False)
        onnx.write(os.path.join(folder, "model.int8.onnx"), c, w, int8=True)
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"w{i}" for i in range(vocab - 5)]
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            json.dump(bert_tokenizer(pieces), f, ensure_ascii=False)
        return
    texts = [open(p, newline="").read() for p in sorted(glob.glob(os.path.join(sys.argv[1], "*.txt")))]
    for family in ("bert", "xlmr"):
        folder = os.path.join(sys.argv[2], family)
        os.makedirs(folder, exist_ok=True)
        if family == "bert":
            vocab = wordpiece(texts, 3000)
            n, tokenizer = len(vocab), bert_tokenizer(vocab)
        else:
            n, tokenizer = unigram(texts, 2000)
        with open(os.path.join(folder, "tokenizer.json"), "w") as f:
            json.dump(tokenizer, f, ensure_ascii=False, separators=(",", ":"))
        c = config(family, 2, 32, 4, n + NEW)
        save(folder, c, weights(c, 17, True), True)


main()
