// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

const model = "../lingua/testdata/models/bert"

const prose = "The meeting was long and nobody liked it. The cache, in the end, stays as it is; the queue goes."

func embedded(t *testing.T) *Embedded {
	t.Helper()
	e := &Embedded{Model: model}
	if err := e.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Cleanup() })
	return e
}

// serve answers as docs/guides/lingua.md says, with the embedded compressor.
func serve(t *testing.T) *HTTP {
	e := embedded(t)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /compress", func(w http.ResponseWriter, r *http.Request) {
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got, err := e.Compress(r.Context(), q.Text, q.Rate)
		if err != nil {
			t.Error(err)
		}
		words := [][2]any{}
		for _, word := range got.Words {
			words = append(words, [2]any{word.Text, map[bool]int{true: 1}[word.Keep]})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"text": got.Text, "words": words, "before": got.Before,
			"after": got.After,
		})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"device":"mps","model":"some"}`))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	h := &HTTP{URL: s.URL + "/"}
	if err := h.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestServer says that a server's words, counts and device arrive.
func TestServer(t *testing.T) {
	h := serve(t)
	want, err := embedded(t).Compress(context.Background(), prose, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Compress(context.Background(), prose, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != want.Text || got.Before != want.Before || got.After != want.After || len(got.Words) != len(want.Words) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Text == prose || got.Text == "" {
		t.Errorf("text is %q", got.Text)
	}
	for i, w := range got.Words {
		if w.Text != want.Words[i].Text || w.Keep != want.Words[i].Keep {
			t.Errorf("word %d is %+v, want %+v", i, w, want.Words[i])
		}
	}
	if health := h.Health(context.Background()); health != (Health{Device: "mps", Model: "some"}) {
		t.Errorf("health is %+v", health)
	}
}

// TestBadServer: an invalid response is an error.
func TestBadServer(t *testing.T) {
	for want, reply := range map[string]http.HandlerFunc{
		"answers 500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"has no text": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"bytes of": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write([]byte(`{"text":"` + prose + `!"}`))
		},
		"counts below": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write([]byte(`{"text":"","after":-1}`))
		},
		"no UTF-8": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write([]byte("{\"text\":\"\xff\"}"))
		},
		"not a pair": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write([]byte(`{"text":"","words":[["a"]]}`))
		},
		"unexpected end of JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{`)) },
		"is longer than": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write(bytes.Repeat([]byte(" "), 1<<17))
		},
	} {
		s := httptest.NewServer(reply)
		h := &HTTP{URL: s.URL}
		if err := h.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
		_, err := h.Compress(context.Background(), prose, 0.5)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
		s.Close()
	}
}

// TestProvision says that a folder or a URL that cannot be used is refused
// while the configuration is read.
func TestProvision(t *testing.T) {
	empty := t.TempDir()
	broken := t.TempDir()
	if err := os.CopyFS(broken, os.DirFS(model)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(broken, "model.safetensors"), 1000); err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]caddy.Provisioner{
		"folder is missing": &Embedded{},
		"config.json":       &Embedded{Model: empty},
		"model.safetensors": &Embedded{Model: broken},
		"threads":           &Embedded{Model: model, Threads: -1},
		"no http":           &HTTP{URL: "ftp://example.com"},
		"below zero":        &HTTP{URL: "http://127.0.0.1", Timeout: -1},
	} {
		if err := p.Provision(caddy.Context{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestShared: a model is shared while it is in use, and a closed model does not run.
func TestShared(t *testing.T) {
	a, b := &Embedded{Model: model}, &Embedded{Model: model + "/."}
	for _, e := range []*Embedded{a, b} {
		if err := e.Provision(caddy.Context{}); err != nil {
			t.Fatal(err)
		}
	}
	if a.share.Of != b.share.Of {
		t.Error("two models")
	}
	if err := a.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Compress(context.Background(), prose, 0.5); err != nil {
		t.Error(err)
	}
	if err := b.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Compress(context.Background(), prose, 0.5); err == nil {
		t.Error("a closed model runs")
	}
}

func TestCaddyfile(t *testing.T) {
	for text, want := range map[string]string{
		"embedded {\nmodel /m\nint8\nthreads 2\n}": `{"model":"/m","int8":true,"threads":2}`,
		"embedded {\nmodel /m\nmodel /n\n}":        "duplicate option",
		"embedded {\nmodel\n}":                     "wrong argument count",
		"embedded {\nint8 on\n}":                   "wrong argument count",
		"embedded x":                               "wrong argument count",
		"embedded {\nfoo\n}":                       "unrecognized option",
		"http http://127.0.0.1:1 {\ntimeout 5s\n}": `{"url":"http://127.0.0.1:1","timeout":5000000000}`,
		"http":                      "wrong argument count",
		"http http://127.0.0.1:1 x": "wrong argument count",
	} {
		var m caddyfile.Unmarshaler = new(Embedded)
		if strings.HasPrefix(text, "http") {
			m = new(HTTP)
		}
		var got string
		if err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err != nil {
			got = err.Error()
		} else {
			b, _ := json.Marshal(m)
			got = string(b)
		}
		if got != want && (strings.HasPrefix(want, "{") || !strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestCommand: the command shows every word, and marks the dropped ones.
func TestCommand(t *testing.T) {
	run := func(args ...string) (string, error) {
		cmd := Command()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetIn(strings.NewReader(prose + "\x1b[2J"))
		cmd.SetArgs(args)
		err := cmd.Execute()
		return out.String(), err
	}
	want, err := embedded(t).Compress(context.Background(), prose+"\x1b[2J", 0.5)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := run("--model", model, "-")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(plain, "[-") || strings.Contains(plain, "\x1b") || !strings.Contains(plain, "words dropped") ||
		!strings.Contains(plain, "float32") {
		t.Errorf("printed %q", plain)
	}
	colored, err := run("--model", model, "--int8", "--color", "always", "-")
	if err != nil || !strings.Contains(colored, "\x1b[9;31m") || !strings.Contains(colored, "int8") {
		t.Errorf("printed %q, %v", colored, err)
	}
	text, err := run("--server", serve(t).URL, "--text", "-")
	if err != nil || text != want.Text+"\n" {
		t.Errorf("printed %q, want %q, %v", text, want.Text, err)
	}
	for _, args := range [][]string{
		{"-"},
		{"--model", model, "--server", "http://127.0.0.1:1", "-"},
		{"--model", model, "--rate", "0", "-"},
		{"--model", model, "--color", "blue", "-"},
		{"--model", t.TempDir(), "-"},
		{"--model", model, "missing.txt"},
	} {
		if out, err := run(args...); err == nil {
			t.Errorf("%v: printed %q", args, out)
		}
	}
}
