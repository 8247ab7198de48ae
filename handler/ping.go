// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/audit"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/pipeline/billing"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// pingKey marks the context of a ping. A header could be forged.
type pingKey struct{}

// lastRequest is what a ping is made of: the last request that went upstream.
type lastRequest struct {
	server  string // name of the HTTP server that took it
	method  string
	uri     string // without what may be a credential
	host    string
	remote  string
	tls     *tls.ConnectionState
	header  http.Header // without credentials
	format  wire.Format
	secret  *keepalive.Credential
	body    []byte // as it is to be sent, compressed
	length  int    // of it, plain
	whole   bool   // nothing follows the last marker
	session *sessioncache.Session
	lineage int
	price   func(wire.Usage) (cost, dollars float64)
	model   string
	// Outside of a Caddy configuration, the handler and what stands behind it.
	handler *Handler
	next    caddyhttp.Handler
}

var _ keepalive.Payload = (*lastRequest)(nil)

// Size implements keepalive.Payload.
func (p *lastRequest) Size() int64 {
	n := int64(cap(p.body)) + p.secret.Size() + int64(len(p.uri)) + 512
	for name, values := range p.header {
		n += int64(len(name) + 48)
		for _, v := range values {
			n += int64(len(v) + 16)
		}
	}
	return n
}

// Wipe implements keepalive.Payload.
func (p *lastRequest) Wipe() {
	p.secret.Wipe()
	clear(p.body)
	p.body, p.header = nil, nil
}

// tail is the length in tokens of what a ping carries behind the last marker.
func (p *lastRequest) tail(u wire.Usage) int64 {
	if p.whole {
		return 0
	}
	return u.Uncached
}

var packer = func() *zstd.Encoder {
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2)) // fails for bad options only
	return e
}()

// lastRequest copies what a ping needs, nil if there is no cheap one.
func (c *call) lastRequest(r *http.Request, lineage int) *lastRequest {
	body, whole, ok := pingBody(c.view, c.out.Bytes())
	if !ok {
		return nil
	}
	rules := c.ex.Rules()
	p := c.way(r, body)
	p.whole, p.session, p.lineage = whole, c.session, lineage
	p.price = func(u wire.Usage) (cost, dollars float64) {
		return rules.Cost(u) + rules.CostOutput(u), rules.Dollars(u)
	}
	return p
}

// way copies what a request of ours needs to take the way that r took, with a
// body of its own.
func (c *call) way(r *http.Request, body []byte) *lastRequest {
	p := &lastRequest{
		method: r.Method, uri: r.RequestURI, host: r.Host, remote: r.RemoteAddr,
		header: http.Header{}, secret: new(keepalive.Credential),
		body: slices.Clip(packer.EncodeAll(body, make([]byte, 0, len(body)/4))), length: len(body),
		model: c.view.Model, format: c.view.Format,
	}
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		p.method, p.uri, p.remote = original.Method, original.RequestURI, original.RemoteAddr
	}
	var query string
	if p.uri, query = openURI(p.uri); query != "" {
		p.secret.Seal(queryField, query)
	}
	for name, values := range r.Header {
		switch {
		case secretHeader(name):
			for _, v := range values {
				p.secret.Seal(name, v)
			}
		case name != "Content-Encoding" && name != "Content-Length" && name != "Transfer-Encoding":
			p.header[name] = slices.Clone(values) // the original shares its array with the credential
		}
	}
	if r.TLS != nil {
		p.tls = &tls.ConnectionState{Version: r.TLS.Version, HandshakeComplete: true, CipherSuite: r.TLS.CipherSuite, ServerName: r.TLS.ServerName}
	}
	if srv, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && srv != nil {
		p.server = srv.Name()
	}
	if c.h.state.keeper.manual {
		p.handler, p.next = c.h, c.next
	}
	return p
}

// secretHeader tells whether a header may hold a secret.
func secretHeader(name string) bool {
	return tenant.IsCredential(name) || name == "Cookie" || name == "Proxy-Authorization"
}

// pingBody makes the body of a ping of one that was sent: up to the last message
// with a cache marker, byte for byte, for an answer of no token, or of one where
// the API demands it. Requests with a fixed budget of thinking must leave room
// for all of it, so for them there is no cheap ping. Source: Anthropic's
// documentation of prompt caching, on filling a cache in advance.
func pingBody(v *wire.View, sent []byte) (body []byte, whole, ok bool) {
	if len(sent) == 0 || v.Partial || gjson.GetBytes(v.Bytes(v.Thinking), "type").Str == "enabled" {
		return nil, false, false
	}
	if !markedEnd(v) {
		if sent, ok = cutBehindMarker(sent, v.Format); !ok {
			return nil, false, false
		}
	}
	most := "0"
	choice := gjson.GetBytes(v.Bytes(v.ToolChoice), "type").Str
	if choice == "any" || choice == "tool" || gjson.GetBytes(v.Bytes(v.OutputConfig), "format").Exists() {
		most = "1"
	}
	members := []wire.Member{{Name: "max_tokens", Value: []byte(most)}, {Name: "thread"}}
	if v.Stream {
		members = append(members, wire.Member{Name: "stream", Value: []byte("false")})
	}
	body, err := wire.Patch(sent, members...)
	return body, true, err == nil
}

// markedEnd tells whether the last message carries a cache marker.
func markedEnd(v *wire.View) bool {
	if !v.AutoMarker.Empty() {
		return true
	}
	return len(v.Messages) > 0 && marked(v, len(v.Messages)-1)
}

func marked(v *wire.View, message int) bool {
	m := &v.Messages[message]
	for i := m.First; i < m.End; i++ {
		if !v.Blocks[i].Marker.Empty() {
			return true
		}
	}
	return false
}

// cutBehindMarker leaves out the messages behind the last one with a marker.
// That must be the user's, or the rest would not be a valid request.
func cutBehindMarker(body []byte, f wire.Format) ([]byte, bool) {
	v, err := wire.Parse(f, body, nil)
	if err != nil {
		return nil, false
	}
	last := len(v.Messages) - 1
	i := last
	for i >= 0 && !marked(v, i) {
		i--
	}
	if i < 0 || v.Messages[i].Role != wire.RoleUser {
		return nil, false
	}
	from, to := v.Messages[i].Span.End, v.Messages[last].Span.End
	return append(slices.Clone(body[:from]), body[to:]...), true
}

// request makes the ping. Its body comes only when it has reached a handler that
// keeps caches alive: no other way leads to an upstream.
func (p *lastRequest) request(ctx context.Context) (*http.Request, error) {
	uri, mark := p.uri, "?"
	if strings.Contains(uri, "?") {
		mark = "&"
	}
	p.secret.Reveal(func(name, value string) {
		if name == queryField {
			uri += mark + value
		}
	})
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, errURI // the URL's own error quotes it
	}
	r := (&http.Request{
		Method: p.method, URL: u, RequestURI: uri, Host: p.host, RemoteAddr: p.remote, TLS: p.tls,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: p.header.Clone(), // handlers on the way may write into the values

		Body: io.NopCloser(unreached{}), ContentLength: int64(p.length),
	}).WithContext(ctx)
	p.secret.Reveal(func(name, value string) {
		if name != queryField {
			r.Header[name] = append(r.Header[name], value)
		}
	})
	return r, nil
}

// errURI tells that what was the URI of a request can be read no more.
var errURI = errors.New("the URI of a request of ours cannot be read")

// queryField is the name of the sealed part of a query: no header's.
const queryField = "?"

// openParameters are those of a query that are known to be no secret.
var openParameters = [...]string{"alt", "api-version", "beta"}

// openURI takes out of a URI what may be a credential, and returns it as a query.
// A Gemini client has its key there.
func openURI(uri string) (open, secret string) {
	open, query, _ := strings.Cut(uri, "?")
	mark := "?"
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case pair == "":
		case slices.Contains(openParameters[:], name):
			open += mark + pair
			mark = "&"
		case secret == "":
			secret = pair
		default:
			secret += "&" + pair
		}
	}
	return open, secret
}

// unreached is the body of a ping that has not come to its handler.
type unreached struct{}

var errUnreached = errors.New("a ping has left its way")

func (unreached) Read([]byte) (int, error) { return 0, errUnreached }

// flight is a ping under way.
type flight struct {
	last    *lastRequest
	reached bool
	handler *Handler // that it came to
	request *http.Request
	status  int
	// deliver hands on what is no ping once it has come to its handler.
	deliver func(h *Handler, w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error
}

// servePing hands a ping on as the request that it repeats was handed on.
func (h *Handler) servePing(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, f *flight) error {
	if f.deliver != nil {
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
		if f.reached {
			return caddyhttp.Error(http.StatusNotFound, errUnreached)
		}
		f.reached, f.handler, f.request = true, h, r
		return f.deliver(h, w, r, next)
	}
	if h.KeepAlive == nil || !or(h.KeepAlive.Log, false) {
		caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true)
	}
	if h.KeepAlive == nil || f.reached {
		return caddyhttp.Error(http.StatusNotFound, errUnreached)
	}
	body, err := layer.Decode("zstd", f.last.body, largestMaxBody, nil)
	if err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, err)
	}
	f.reached, f.handler, f.request = true, h, r
	next = (&passage{h: h, errand: pinging, format: f.last.format, session: f.last.session.ID()}).through(next)
	layer.SetBody(r, body)
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	r.Header["Content-Length"] = []string{strconv.Itoa(len(body))}
	layer.AskPlain(r.Header)
	return next.ServeHTTP(w, r)
}

const (
	// pingTimeout bounds a ping: reading a cached prompt takes seconds.
	pingTimeout = 60 * time.Second
	// pingAnswer bounds the answer that is kept to be read.
	pingAnswer = 64 << 10
)

// ping sends one ping and tells the schedule what became of it, whatever that is:
// only so many are in flight.
func (k *keeper) ping(p *keepalive.Ping) {
	outcome, cost := keepalive.Broken, 0.0
	defer func() { p.End(outcome, cost) }()
	last := p.Payload.(*lastRequest)
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	if !k.manual {
		go layer.Background("awaiting the end of a ping", func() {
			select {
			case <-p.Canceled():
				cancel()
			case <-over:
			}
		})
	}
	at, number := k.now().Wall, p.Number()
	f := &flight{last: last}
	usage, became := k.send(ctx, f)
	if ctx.Err() != nil && became != keepalive.Read {
		became = keepalive.Broken
		if errors.Is(ctx.Err(), context.Canceled) {
			became = keepalive.Canceled
		}
	}
	spent, dollars := last.price(usage)
	outcome, cost = became, spent
	if outcome == keepalive.Read {
		last.session.KeepWarm(last.lineage, at)
	}
	metrics.pings.WithLabelValues(string(outcome)).Inc()
	metrics.pingCost.Add(cost)
	k.mu.Lock()
	k.sum.Pings++
	k.sum.Cost += cost
	watcher := k.watcher
	k.mu.Unlock()
	rec := PingRecord{
		Session: last.session.ID(), Lineage: last.lineage, Tenant: p.Habit.Tenant, Number: number, At: at,
		Model: last.model, Outcome: outcome, Usage: usage, Cost: cost, Dollars: dollars,
	}
	f.record(&rec)
	if watcher != nil {
		watcher.Pinged(rec)
	}
}

// send sends a ping and reads its answer.
func (k *keeper) send(ctx context.Context, f *flight) (u wire.Usage, o keepalive.Outcome) {
	w, err := k.carry(ctx, f)
	if err != nil {
		return u, keepalive.Broken
	}
	return w.outcome(f.last.format)
}

// carry takes a request of ours through the site to its handler, and returns the
// answer.
func (k *keeper) carry(ctx context.Context, f *flight) (w *pingSink, err error) {
	last := f.last
	defer func() {
		if p := recover(); p != nil { // an answer cut short, or a way that does not lead there
			w, err = nil, errUnreached
			if e, ok := p.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				layer.Panicked("sending a request of ours", p)
			}
		}
	}()
	r, err := last.request(context.WithValue(ctx, pingKey{}, f))
	if err != nil {
		return nil, err
	}
	w = &pingSink{header: http.Header{}}
	if last.next != nil {
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
		err = last.handler.ServeHTTP(w, r, last.next)
	} else {
		srv := k.app().httpServer(last.server)
		if srv == nil {
			return nil, errUnreached
		}
		srv.ServeHTTP(w, r)
	}
	f.status = w.status
	if err == nil && !f.reached {
		err = errUnreached
	}
	return w, err
}

// record puts a ping on record.
func (f *flight) record(p *PingRecord) {
	countCost(&billing.Bill{Dollars: p.Dollars}) // the client would not have asked
	if f.handler == nil {
		return
	}
	s := f.handler.sink.pinned()
	if s == nil {
		return
	}
	defer s.unpin()
	rec := &audit.Record{
		ID: audit.NewID(p.At), At: p.At, Turns: 1, Kind: audit.KindKeepAlive, Tenant: s.tenant(f.request), Session: p.Session, Lineage: p.Lineage,
		Client: clientName(first(f.request.Header, "User-Agent")), Model: p.Model,
		ClientFormat: string(f.last.format), UpstreamFormat: string(f.last.format), Policy: string(f.handler.Policy),
		Billed: tokens(p.Usage), Cost: p.Cost, USD: p.Dollars, Outcome: audit.Completed, Reason: string(p.Outcome), Status: f.status, Total: time.Since(p.At),
	}
	rec.User = rec.Tenant
	if p.Outcome != keepalive.Read && p.Outcome != keepalive.WroteCache {
		rec.Outcome = audit.Failed
	}
	s.queue.End(s.queue.Begin(rec), rec)
}

// httpServer returns the HTTP server of a name in the configuration, nil if
// there is none.
func (a *App) httpServer(name string) *caddyhttp.Server {
	if a == nil || a.http == nil {
		return nil
	}
	return a.http.Servers[name]
}

// pingSink takes the answer to a ping.
type pingSink struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *pingSink) Header() http.Header { return w.header }

func (w *pingSink) WriteHeader(status int) {
	if status >= http.StatusOK && w.status == 0 {
		w.status = status
	}
}

func (w *pingSink) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if room := pingAnswer - w.body.Len(); room > 0 {
		w.body.Write(b[:min(len(b), room)])
	}
	return len(b), nil
}

func (w *pingSink) Flush() {}

// outcome reads the answer.
func (w *pingSink) outcome(f wire.Format) (u wire.Usage, o keepalive.Outcome) {
	switch w.status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusTooManyRequests:
		return u, keepalive.Denied
	}
	if w.status/100 != 2 {
		return u, keepalive.Broken
	}
	d := wire.NewDecoder(f, layer.MediaType(w.header.Get("Content-Type")) == "text/event-stream")
	d.Feed(w.body.Bytes())
	t := d.Turn()
	if !t.Done || t.Failed() || !t.Usage.Reported {
		return t.Usage, keepalive.Broken
	}
	// A marker behind a short rest may be written; a prefix that was gone shows
	// in more written than read.
	if wrote := t.Usage.Write5m + t.Usage.Write1h; wrote > 0 {
		return t.Usage, keepalive.WroteCache
	}
	return t.Usage, keepalive.Read
}
