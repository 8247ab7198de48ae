// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package lingua

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTokenizersLike compares both tokenizers with Hugging Face's tokens in the file
// LLM_CACHE_LINGUA_TOKENS, written by testdata/oracle/fuzz.cjs.
func TestTokenizersLike(t *testing.T) {
	path := os.Getenv("LLM_CACHE_LINGUA_TOKENS")
	if path == "" {
		t.Skip("LLM_CACHE_LINGUA_TOKENS names no file")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	bert, xlmr := tokenizer(t, "bert"), tokenizer(t, "xlmr")
	lines, size, wrong := 0, 0, 0
	for s := bufio.NewReader(f); ; lines++ {
		line, err := s.ReadBytes('\n')
		if err != nil {
			break
		}
		var row struct {
			Text string
			BERT []int32
			XLMR []int32
		}
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		size += len(row.Text)
		for tok, want := range map[*Tokenizer][]int32{bert: row.BERT, xlmr: row.XLMR} {
			var got []int32
			for _, token := range tok.Tokens(row.Text) {
				got = append(got, token.ID)
			}
			if !slices.Equal(got, want) {
				wrong++
				if wrong < 20 {
					t.Errorf("%s: %+q\n got %v\nwant %v", tok.family, row.Text, got, want)
				}
			}
		}
	}
	t.Logf("%d texts, %d bytes, %d differ", lines, size, wrong)
	if size == 0 {
		t.Error("nothing to compare")
	}
}

// FuzzTokenizer says that a tokenizer.json which is not understood is refused,
// and that one which is read can be used.
func FuzzTokenizer(f *testing.F) {
	for _, s := range []string{
		`{"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"a":1,"##b":2}},` +
			`"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"decoder":{"type":"WordPiece"}}`,
		`{"added_tokens":[{"id":1,"content":"<m>","lstrip":true}],"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",` +
			`0],["▁",-1],["a",-2]]},"normalizer":{"type":"Precompiled","precompiled_charsmap":"BAAAAAAAAAA="},` +
			`"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},"decoder":{"type":"Metaspace"}}`,
		`{"model":{"type":"BPE"}}`, `{"model":null}`, `[]`, ``,
	} {
		f.Add([]byte(s), "ab <m> é한")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		tok, err := ParseTokenizer(file)
		if err != nil {
			return
		}
		var texts []string
		for _, token := range tok.Tokens(text) {
			if token.ID < 0 || int(token.ID) >= len(tok.vocabulary) {
				t.Fatalf("id %d of %d", token.ID, len(tok.vocabulary))
			}
			texts = append(texts, token.Text)
		}
		tok.decode(texts)
	})
}

// FuzzWeights: a header with wrong offsets is rejected, and reads stay in the file.
func FuzzWeights(f *testing.F) {
	pack := func(header, data string) []byte {
		return append(append([]byte{byte(len(header)), byte(len(header) >> 8), 0, 0, 0, 0, 0, 0}, header...), data...)
	}
	f.Add(pack(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "abcd"))
	f.Add(pack(`{"a":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},"__metadata__":{"format":"pt"}}`, "abcd"))
	f.Add(pack(`{"a":{"dtype":"BF16","shape":[4611686018427387904,4],"data_offsets":[0,4]}}`, "abcd"))
	f.Add(pack(`{"a":{"dtype":"I64","shape":[-1],"data_offsets":[-4,4]}}`, "abcd"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, file []byte) {
		w, err := readWeights(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		for name, entry := range w.tensors {
			if entry.width() == 0 {
				continue
			}
			n := 1
			for _, d := range entry.Shape {
				n *= d
			}
			if n > len(file) {
				t.Fatalf("%q: %d elements in %d bytes", name, n, len(file))
			}
			if err := w.read(make([]float32, n), entry, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestBadFolders: a folder without a supported model yields an error.
func TestBadFolders(t *testing.T) {
	edit := func(name, from, to string) func(t *testing.T, folder string) {
		return func(t *testing.T, folder string) {
			path := filepath.Join(folder, name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := bytes.Replace(b, []byte(from), []byte(to), 1)
			if bytes.Equal(b, changed) {
				t.Fatalf("%s has no %q", name, from)
			}
			if err := os.WriteFile(path, changed, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	truncate := func(name string, size int64) func(t *testing.T, folder string) {
		return func(t *testing.T, folder string) {
			if err := os.Truncate(filepath.Join(folder, name), size); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		want  string
		spoil func(t *testing.T, folder string)
	}{
		{"config.json: no such file", func(t *testing.T, folder string) { os.Remove(filepath.Join(folder, "config.json")) }},
		{"tokenizer.json: no such file", func(t *testing.T,
			folder string,
		) {
			os.Remove(filepath.Join(folder, "tokenizer.json"))
		}},
		{"model.safetensors: no such file", func(t *testing.T,
			folder string,
		) {
			os.Remove(filepath.Join(folder, "model.safetensors"))
		}},
		{"config.json: unexpected end", truncate("config.json", 20)},
		{"tokenizer.json: unexpected end", truncate("tokenizer.json", 2000)},
		{"length of header", truncate("model.safetensors", 3)},
		{"header of", truncate("model.safetensors", 100)},
		{"lie outside of the file", truncate("model.safetensors", 20000)},
		{`model_type "gpt2"`, edit("config.json", `"bert"`, `"gpt2"`)},
		{`hidden_act "relu"`, edit("config.json", `"gelu"`, `"relu"`)},
		{"tokenizer.json is one of xlm-roberta", func(t *testing.T, folder string) {
			b, err := os.ReadFile(filepath.Join("testdata", "models", "xlmr", "tokenizer.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "tokenizer.json"), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"no multiple of", edit("config.json", `"num_attention_heads": 4`, `"num_attention_heads": 5`)},
		{"are too few", edit("config.json", `"max_position_embeddings": 512`, `"max_position_embeddings": 128`)},
		{"num_hidden_layers: 0", edit("config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 0`)},
		{"bert.encoder.layer.2.attention.self.query.weight\" is missing", edit("config.json", `"num_hidden_layers": 2`,
			`"num_hidden_layers": 3`)},
		{"has shape", edit("config.json", `"intermediate_size": 128`, `"intermediate_size": 64`)},
		{`model of type "BPE"`, edit("tokenizer.json", `"WordPiece","unk`, `"BPE","unk`)},
		{`normalizer of type "NFC"`, edit("tokenizer.json", `"BertNormalizer"`, `"NFC"`)},
		{`decoder of type "ByteLevel"`, edit("tokenizer.json", `"type":"WordPiece","prefix"`, `"type":"ByteLevel","prefix"`)},
		{`type "F64"`, edit("model.safetensors", `"dtype": "F16"`, `"dtype": "F64"`)},
	} {
		folder := t.TempDir()
		if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", "models", "bert"))); err != nil {
			t.Fatal(err)
		}
		c.spoil(t, folder)
		m, err := Open(folder, Options{})
		if err == nil {
			m.Close()
			t.Errorf("%s: opened", c.want)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q does not say %q", err, c.want)
		}
	}
}

// TestCanceled: a run ends with its context.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := open(t, "bert", Options{}).Compress(ctx, "some words, and more", Compression{}); err == nil {
		t.Error("ran")
	}
}
