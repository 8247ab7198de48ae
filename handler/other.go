// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// Requests to endpoints that are not read here cost money all the same: batches, embeddings,
// images, speech. A spent budget refuses them, too.

// freeEnds are the ends of the paths of POSTs for which providers charge nothing.
var freeEnds = [...]string{
	"/count_tokens", "/input_tokens", ":countTokens", "/cancel", ":cancel", "/files", "/uploads", "/parts", "/complete",
	"/moderations", "/conversations", "/tokenize", "/mcp", "/analytics-events/events",
}

// isPaid reports whether a provider may charge for a request that is not read here.
func isPaid(r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	// Paths below /api/ are Claude Code's own, such as telemetry. Those of ChatGPT are the account's, except for the
	// model's, see https://github.com/openai/codex.
	if r.Method != http.MethodPost || strings.HasPrefix(path, "/api/") ||
		strings.HasPrefix(path, "/backend-api/") && !strings.HasPrefix(path, "/backend-api/codex/") {
		return false
	}
	for _, end := range freeEnds {
		if strings.HasSuffix(path, end) {
			return false
		}
	}
	return true
}

// serveOther forwards a paid request that is not read here and puts it on record.
func (o *site) serveOther(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	s := o.records.sink.Pinned()
	if s == nil {
		return next.ServeHTTP(w, r)
	}
	defer s.Unpin()
	who := o.userOf(r)
	recorded := o.records.begin(time.Now(), who, audit.ClientName(first(r.Header, "User-Agent")),
		&wire.View{Format: formatAt(r)}, false)
	rec, host := &recorded, r.Host
	rec.Project = o.configuredProject(r)
	httpx.AskPlain(r.Header) // its usage cannot be read otherwise
	t := &tailWriter{ResponseWriter: w}
	err := next.ServeHTTP(t, r)
	o.guard("putting a request on record", func() {
		rec.Status, rec.Total, rec.Outcome = t.status, time.Since(rec.At), audit.Failed
		if err == nil && t.status/100 == 2 {
			rec.Outcome = audit.Completed
			// The price is known where the response tells its usage.
			o.price(rec, t.tail)
		}
		app.Count(o.store.Instance, rec, host)
		s.Spend(rec)
		s.Put(rec)
	})
	return err
}

// price reads the usage at the end of a response.
func (o *site) price(rec *audit.Record, tail []byte) {
	// OpenAI's embeddings and images have the first, Gemini's responses the second.
	at := max(bytes.LastIndex(tail, []byte(`"usage"`)), bytes.LastIndex(tail, []byte(`"usageMetadata"`)))
	if at < 0 {
		return
	}
	_, object, _ := bytes.Cut(tail[at:], []byte{':'})
	u := gjson.ParseBytes(object)
	count := func(names ...string) int64 {
		for _, name := range names {
			// A larger number is no count of tokens.
			if n := u.Get(name); n.Type == gjson.Number && n.Num > 0 && n.Num < 1<<40 {
				return n.Int()
			}
		}
		return 0
	}
	usage := wire.Usage{
		Uncached: count("prompt_tokens", "input_tokens", "promptTokenCount", "total_tokens"),
		Output:   count("completion_tokens", "output_tokens", "candidatesTokenCount"),
	}
	if at := bytes.LastIndex(tail, []byte(`"model"`)); at >= 0 {
		_, name, _ := bytes.Cut(tail[at:], []byte{':'})
		rec.Model = audit.Bounded(gjson.ParseBytes(name).Str)
	}
	rules := o.up.Rules()(rec.Model, rec.At)
	rec.Billed, rec.ClientBilled = tokens(usage), tokens(usage)
	rec.Cost, rec.USD = rules.Cost(usage)+rules.CostOutput(usage), rules.Dollars(usage)
	rec.AssumedFrom, rec.PricesOf = rules.AssumedFrom, rules.PricesOf
	rec.ClientCost, rec.ClientUSD = rec.Cost, rec.USD
}

// maxTail bounds the part kept of the end of an answer, in bytes.
const maxTail = 4 << 10

// tailWriter keeps the status and the end of an answer.
type tailWriter struct {
	http.ResponseWriter
	status int
	tail   []byte
}

// Unwrap has the answer flushed.
func (t *tailWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (t *tailWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (t *tailWriter) Write(b []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	if t.tail = append(t.tail, b[max(0, len(b)-maxTail):]...); len(t.tail) > 2*maxTail {
		t.tail = append(t.tail[:0], t.tail[len(t.tail)-maxTail:]...)
	}
	return t.ResponseWriter.Write(b)
}

// slotlessPaths are path suffixes of endpoints without text generation. llama-server, vLLM,
// SGLang, Ollama and LM Studio answer them while all slots are taken. A download may take hours.
var slotlessPaths = []string{
	"/tokenize", "/detokenize", "/apply-template", "/embeddings", "/embedding", "/api/embed", "/rerank", "/reranking",
	"/api/show", "/count_tokens", "/input_tokens", "/cancel", "/abort_request", "/api/pull", "/api/push", "/api/create",
	"/api/copy",
}

func needsNoSlot(path string) bool {
	for _, end := range slotlessPaths {
		if strings.HasSuffix(path, end) {
			return true
		}
	}
	return false
}

// withLength returns next with bodies of unknown length read before it.
func (o *site) withLength(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.ContentLength >= 0 {
			return next.ServeHTTP(w, r)
		}
		// mlx_lm.server and others cannot read bodies that come in chunks.
		format := formatAt(r)
		var a arrival
		a.begin(o, r, format)
		defer a.share.Close()
		switch err := a.receive(w, r); {
		case errors.Is(err, httpx.ErrNoRoom):
			return budget.Fail(w, format)
		case errors.Is(err, budget.ErrStalled):
			return budget.FailStalled(w, format)
		case err != nil:
			return failBody(w, r, format, err)
		}
		length, coding := r.ContentLength, r.TransferEncoding
		r.ContentLength, r.TransferEncoding = int64(len(a.Data)), nil
		defer func() { r.ContentLength, r.TransferEncoding = length, coding }() // for the access log
		return passBody(w, r, next, &a.Payload)
	})
}
