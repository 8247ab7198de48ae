"""Runs LLMLingua-2's reference implementation, unmodified, and writes down what it says.

    reference.py LLMLINGUA PEERS MODELS TEXTS OUT

LLMLINGUA is a checkout of microsoft/LLMLingua; PEERS a folder with tokenizers,
onnxruntime-node and js-tiktoken in its node_modules; MODELS and TEXTS as for
models.py. torch, transformers, tiktoken and nltk are stood in for by a few
lines over numpy: tensors are arrays, tokenizers and models are the peers'.
"""

import glob
import gzip
import json
import os
import random
import subprocess
import sys
import types

import numpy as np

source, peers, models, texts, out = map(os.path.abspath, sys.argv[1:6])
here = os.path.dirname(os.path.abspath(__file__))


class Peer:
    def __init__(self):
        self.p = subprocess.Popen(
            ["node", os.path.join(here, "peer.cjs")], cwd=peers, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, verb, **args):
        self.p.stdin.write(json.dumps({"verb": verb, **args}) + "\n")
        self.p.stdin.flush()
        answer = json.loads(self.p.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]


peer = Peer()


class Tensor(np.ndarray):
    def to(self, *_, **__):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


def tensor(a):
    return np.asarray(a).view(Tensor)


def softmax(x, dim):
    e = np.exp(x - x.max(dim, keepdims=True))
    return (e / e.sum(dim, keepdims=True)).astype(np.float32).view(Tensor)


class Tokenizer:
    eos_token_id = 0

    def __init__(self, folder):
        self.file = os.path.join(folder, "tokenizer.json")
        peer("open", file=self.file)
        if json.load(open(self.file))["model"]["type"] == "WordPiece":
            names = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
        else:
            names = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}
        self.special_tokens_map = {k + "_token": v for k, v in names.items()}
        self.unk = peer("ids", file=self.file, tokens=[names["unk"]])[0]
        self.size = peer("open", file=self.file)

    def add_special_tokens(self, tokens):
        self.size = peer("open", file=self.file, special=tokens["additional_special_tokens"])

    def __len__(self):
        return self.size

    def tokenize(self, text):
        return peer("encode", file=self.file, texts=[text])[0][0]

    def convert_tokens_to_ids(self, tokens):
        return [self.unk if i is None else i for i in peer("ids", file=self.file, tokens=tokens)]

    def convert_ids_to_tokens(self, ids):
        return peer("tokens", file=self.file, ids=ids if isinstance(ids, list) else [ids])

    def convert_tokens_to_string(self, tokens):
        return peer("decode", file=self.file, tokens=tokens)


class Model:
    def __init__(self, folder):
        self.file = os.path.join(folder, "model.onnx")

    def resize_token_embeddings(self, n):
        config = json.load(open(os.path.join(os.path.dirname(self.file), "config.json")))
        assert n == config["vocab_size"], (n, config["vocab_size"])

    def __call__(self, input_ids, attention_mask):
        a = peer("logits", model=self.file, ids=input_ids.tolist(), mask=attention_mask.astype(int).tolist())
        logits = np.array(a["data"], np.float32).reshape(a["shape"]).view(Tensor)
        return types.SimpleNamespace(loss=None, logits=logits)


class Dataset:
    pass


class DataLoader:
    def __init__(self, dataset, batch_size, **_):
        self.dataset, self.size = dataset, batch_size

    def __iter__(self):
        rows = [self.dataset[i] for i in range(len(self.dataset))]
        for i in range(0, len(rows), self.size):
            part = rows[i : i + self.size]
            yield {k: np.stack([r[k] for r in part]).view(Tensor) for k in part[0]}


class Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __getattr__(self, _):
        return lambda *a, **k: None


def module(name, **members):
    m = types.ModuleType(name)
    m.__dict__.update(members)
    sys.modules[name] = m
    return m


class Encoding:
    def encode(self, text):
        return range(peer("count", texts=[text])[0])


functional = module("torch.nn.functional", softmax=softmax)
module("torch.nn", functional=functional)
module("torch.utils")
module("torch.utils.data", Dataset=Dataset, DataLoader=DataLoader)
module(
    "torch",
    tensor=lambda a, dtype=None: tensor(a),
    masked_select=lambda a, m: np.asarray(a)[np.asarray(m)].view(Tensor),
    no_grad=Nothing,
    manual_seed=lambda s: None,
    cuda=Nothing(),
    backends=types.SimpleNamespace(cudnn=types.SimpleNamespace()),
    long=np.int64,
    float32=np.float32,
    nn=sys.modules["torch.nn"],
)
module("tiktoken", encoding_for_model=lambda name: Encoding())
module("nltk")
module("yaml")
folder_of = lambda name: os.path.join(models, "xlmr" if "xlm-roberta" in name else "bert")
module(
    "transformers",
    AutoConfig=types.SimpleNamespace(
        from_pretrained=lambda n, **_: types.SimpleNamespace(pad_token_id=0, max_position_embeddings=512, architectures=["BertForTokenClassification"])
    ),
    AutoTokenizer=types.SimpleNamespace(from_pretrained=lambda n, **_: Tokenizer(folder_of(n))),
    AutoModelForCausalLM=None,
    AutoModelForTokenClassification=types.SimpleNamespace(from_pretrained=lambda n, **_: Model(folder_of(n))),
)
sys.path.insert(0, source)
from llmlingua.prompt_compressor import PromptCompressor  # noqa: E402

OPTIONS = [
    {},
    {"rate": 0.33},
    {"rate": 0.55},
    {"rate": 0.8},
    {"rate": 0.9},
    {"rate": 1.0},
    {"target_token": 100},
    {"token_to_word": "first", "rate": 0.4},
    {"force_reserve_digit": True},
    {"force_tokens": ["\n", "?", "!", ".", ","], "rate": 0.4},
    {"force_tokens": ["\n", ".", "not", "->", "queue"], "drop_consecutive": True, "rate": 0.5},
    {"force_tokens": ["\n", ".", ":"], "drop_consecutive": True, "force_reserve_digit": True, "rate": 0.2},
]
NAMES = {"bert": "bert-base-multilingual-cased", "xlmr": "xlm-roberta-large"}


def dump(name, value):
    raw = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    with open(os.path.join(out, name), "wb") as f:
        f.write(gzip.compress(raw, 9, mtime=0))


def compressions(docs):
    cases = []
    for family, name in NAMES.items():
        compressor = PromptCompressor(name, device_map="cpu", use_llmlingua2=True)
        for doc, text in docs.items():
            for options in OPTIONS:
                case = {"family": family, "text": doc, "options": options}
                try:
                    r = compressor.compress_prompt_llmlingua2(
                        [text], return_word_label=True, word_sep="\x1e", label_sep="\x1f", **options
                    )
                except Exception as e:  # what it raises on is told, and left out
                    print("raises:", family, doc, options, repr(e)[:120])
                    continue
                pairs = [p.rsplit("\x1f", 1) for p in r["fn_labeled_original_prompt"].split("\x1e") if p]
                case["output"] = r["compressed_prompt"]
                case["words"] = [w for w, _ in pairs]
                case["labels"] = "".join(l for _, l in pairs)
                case["before"], case["after"] = r["origin_tokens"], r["compressed_tokens"]
                cases.append(case)
    dump("compress.json.gz", cases)
    print(len(cases), "cases")


def tokens(docs):
    r = random.Random(5)
    parts = [line for text in docs.values() for line in text.splitlines(True)]
    parts = [p for p in parts if len(p) < 3000][:300]
    planes = [(0, 0x7F), (0x80, 0x24F), (0x300, 0x36F), (0x400, 0x6FF), (0x900, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x2BFF),
              (0x3000, 0x33FF), (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xF900, 0xFFFF), (0x1F300, 0x1FAFF), (0x10000, 0x10FFFF)]  # fmt: skip
    for _ in range(300):
        a, b = r.choice(planes)
        s = "".join(chr(r.randint(*(r.choice(planes) if r.random() < 0.4 else (a, b)))) for _ in range(r.randint(1, 40)))
        parts.append("".join(c for c in s if not 0xD800 <= ord(c) < 0xE000))
    answer = {"texts": parts, "count": peer("count", texts=parts)}
    for family in NAMES:
        file = os.path.join(models, family, "tokenizer.json")
        peer("open", file=file)
        answer[family] = [ids for _, ids in peer("encode", file=file, texts=parts)]
    dump("tokens.json.gz", answer)


def logits():
    r = random.Random(9)
    answer = []
    for family in NAMES:
        folder = os.path.join(models, family)
        size = json.load(open(os.path.join(folder, "config.json")))["vocab_size"]
        for n in (1, 2, 7, 48, 129, 512):
            ids = [r.randrange(5, size) for _ in range(n)]
            got = peer("logits", model=os.path.join(folder, "model.onnx"), ids=[ids], mask=[[1] * n])
            answer.append({"family": family, "ids": ids, "logits": [float(np.float32(v)) for v in got["data"]]})
    dump("logits.json.gz", answer)


docs = {os.path.basename(p)[:-4]: open(p, newline="").read() for p in sorted(glob.glob(os.path.join(texts, "*.txt")))}
compressions(docs)
tokens(docs)
logits()
