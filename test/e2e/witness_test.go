// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"hash/maphash"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/test/internal/contract"
)

// witness is a proxy before a model. It forwards everything unchanged, and records violations of
// the API's contract.
type witness struct {
	addr string

	work sync.WaitGroup
	mu   sync.Mutex
	// Faults of requests and responses, each with an example.
	requests, answers map[fault]*evidence
	prompts           []prompt
	threaded          []threaded
}

// threaded is a request of a thread, with the header to its client.
type threaded struct {
	goesOn   bool
	messages int
	held     string // the way it went upstream
}

// fault is a violation of an API's contract.
type fault struct {
	api contract.API
	contract.Finding
}

type evidence struct {
	times  int
	sample string
}

// prompt is the prompt of a request.
type prompt struct {
	api   contract.API
	tools int
	// items are the hashes of its tools, system text and messages, in the models' reading order,
	// without cache markers.
	items []uint64
}

// startWitness starts a witness before the server at an address.
func startWitness(t *testing.T, upstream string) *witness {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{addr: l.Addr().String(), requests: map[fault]*evidence{}, answers: map[fault]*evidence{}}
	target := &url.URL{Scheme: "http", Host: upstream}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	quiet := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
		},
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		// As without a proxy in between.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := &http.Server{Handler: w.watch(proxy), ErrorLog: quiet}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		transport.CloseIdleConnections()
	})
	return w
}

func (w *witness) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		// If a response begins before the proxy has read the whole request, net/http closes the
		// request's body, and cuts the response.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		api := contract.Of(r)
		if api == "" {
			next.ServeHTTP(rw, r)
			return
		}
		// Recorded before forwarding: the response needs the entry.
		body = decoded(body, r.Header.Get("Content-Encoding"))
		w.asked(api, body)
		said := &recorder{ResponseWriter: rw, status: http.StatusOK}
		if kind := gjson.GetBytes(body, "thread.type").Str; kind != "" {
			said.begun = func() { // before the client has any of the response
				if said.status != http.StatusOK {
					return
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.threaded = append(w.threaded, threaded{
					kind == "continue", int(gjson.GetBytes(body, "messages.#").Int()),
					rw.Header().Get("X-Llm-Cache-Retained"),
				})
			}
		}
		ended := false
		defer func() {
			reply := contract.Reply{
				Status: said.status, Type: rw.Header().Get("Content-Type"), Cut: !ended || r.Context().Err() != nil,
				Body: decoded(said.body.Bytes(), rw.Header().Get("Content-Encoding")),
			}
			w.work.Go(func() { w.answered(api, reply) })
		}()
		next.ServeHTTP(said, r)
		ended = true
	})
}

// recorder keeps a copy of a response.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	begun  func() // nil for nothing to do
}

func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) WriteHeader(status int) {
	if r.status = status; r.begun != nil && status >= http.StatusOK {
		r.begun()
		r.begun = nil
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	r.body.Write(b)
	return r.ResponseWriter.Write(b)
}

func decoded(body []byte, encoding string) []byte {
	if encoding != "gzip" {
		return body
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	if plain, err := io.ReadAll(r); err == nil {
		return plain
	}
	return body
}

// passed returns the number of requests with tools at the witness.
func (w *witness) passed() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.prompts {
		if w.prompts[i].tools > 0 {
			n++
		}
	}
	return n
}

func (w *witness) asked(api contract.API, body []byte) {
	found := contract.Request(api, body)
	p := promptOf(api, body)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prompts = append(w.prompts, p)
	note(w.requests, api, found, body)
}

// life is a sign of life to a client of the Responses API during the upstream's silence. Codex only
// counts events and accepts it.
const life = "event: response.in_progress\ndata: {\"type\":\"response.in_progress\"," +
	"\"response\":{\"object\":\"response\",\"status\":\"in_progress\"}}\n\n"

func (w *witness) answered(api contract.API, r contract.Reply) {
	if api == contract.Responses {
		r.Body = bytes.ReplaceAll(r.Body, []byte(life), nil)
	}
	found := contract.Answer(api, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	note(w.answers, api, found, r.Body)
}

func note(in map[fault]*evidence, api contract.API, found []contract.Finding, body []byte) {
	for _, f := range found {
		key := fault{api, f}
		if in[key] == nil {
			in[key] = &evidence{sample: sample(body)}
		}
		in[key].times++
	}
}

// sample returns the beginning and the end of a text.
func sample(b []byte) string {
	const n = 1500
	if len(b) <= 2*n {
		return string(b)
	}
	return string(b[:n]) + " … " + string(b[len(b)-n:])
}

// passes reports the faults of the module: faults in requests that the clients' requests of the
// same API lack, and faults in responses that the model's own lack.
func (w *witness) passes(t *testing.T, client *witness, simulated bool) {
	t.Helper()
	client.work.Wait()
	w.work.Wait()
	client.mu.Lock()
	defer client.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	complain(t, "a request to the model", w.requests, client.requests)
	complain(t, "an answer to a client", client.answers, w.answers)
	if simulated {
		complain(t, "an answer of the simulated model", w.answers, nil)
	}
}

func complain(t *testing.T, what string, in, but map[fault]*evidence) {
	t.Helper()
	keys := slices.SortedFunc(maps.Keys(in), func(a, b fault) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		if e := in[key]; but[key] == nil && !tolerated(key) {
			t.Errorf("%s (%s, %d times): %s\n%s", what, key.api, e.times, key, e.sample)
		}
	}
}

// seed makes the hashes of a process comparable.
var seed = maphash.MakeSeed()

func promptOf(api contract.API, body []byte) (p prompt) {
	v, err := contract.Parse(body)
	if err != nil {
		return p
	}
	p.api, p.tools = api, len(v.List("tools"))
	for _, item := range v.List("input") { // Codex has tools there
		p.tools += len(item.List("tools"))
	}
	if api == contract.Anthropic { // a text equals a list of one
		v.Get("system").AsBlocks("text")
		for _, m := range v.List("messages") {
			m.Get("content").AsBlocks("text")
		}
	}
	add := func(v *contract.Value) {
		if v == nil {
			return
		}
		if v.Kind != contract.Array {
			p.items = append(p.items, maphash.String(seed, v.Without("cache_control")))
		}
		for _, e := range v.Elements {
			p.items = append(p.items, maphash.String(seed, e.Without("cache_control")))
		}
	}
	for _, member := range []string{
		"tools", "instructions", "system", "systemInstruction", "system_instruction",
		"messages", "input", "contents",
	} {
		add(v.Get(member))
	}
	return p
}

// prefixes counts the requests of the conversation that extend the previous one, and those that do
// not. Requests without tools are not part of it.
func (w *witness) prefixes() (whole, broken int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var before *prompt
	for i := range w.prompts {
		p := &w.prompts[i]
		if p.tools == 0 {
			continue
		}
		if before != nil {
			if len(p.items) >= len(before.items) && slices.Equal(p.items[:len(before.items)], before.items) {
				whole++
			} else {
				broken++
			}
		}
		before = p
	}
	return whole, broken
}

// tolerated reports findings that are no faults: deviations of servers and clients from the
// official SDKs.
func tolerated(f fault) bool {
	name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
	if f.What == "is missing" {
		switch f.api {
		case contract.Anthropic: // the usage of an expansion
			return f.Path == "message_delta.usage.iterations[].model"
		case contract.Responses:
			switch f.Path {
			case ".input[].id": // reasoning has no id if nothing is stored
				return true
			case ".input[].content[].detail": // the server's default
				return true
			}
			return strings.HasPrefix(f.Path, "response.failed.response.") // it repeats the request's options
		}
		return false
	}
	if f.api == contract.Chat && f.What == "has two of role user on end" {
		return true // the API accepts them, as did the client's own
	}
	if f.What != "is not known to the SDK" {
		return false
	}
	switch f.api {
	case contract.Chat:
		switch name {
		case "reasoning_content", "reasoning_details": // thinking in DeepSeek, vLLM, llama.cpp, mlx-lm and OpenRouter
			return true
		case "chat_template_kwargs", "top_k": // options of the same servers
			return true
		}
	case contract.Responses:
		switch f.Path {
		case "response.function_call_arguments.done.name", "response.output_item.added.item.status",
			"response.output_item.done.item.status",
			"response.completed.response.output[].status": // the status of custom calls, as OpenAI's servers send it
			return true
		}
	case contract.Gemini:
		return name == "cacheWriteTokenCount" // another provider's cache writes
	}
	return name == "iterations" || name == "cache_creation" // the usage of an expansion's steps in the Messages API
}
