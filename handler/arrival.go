// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx/budget"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/state"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// arrival is a request's body on its way in, and the memory that is reserved for it.
type arrival struct {
	httpx.Payload
	share budget.Share
	up    *upstream.Profile
	// forms is the number of copies of a decoded body that may be in memory at once: the client's, the
	// edited one, and one for each layer behind that rewrites it.
	forms int64
	why   bypass // where the coding could not be undone
}

func (a *arrival) begin(o *site, r *http.Request, f wire.Format) {
	a.share, a.up = *budget.Of(o.store.Instance).Open(), o.up
	if a.forms = 2 + o.up.Forms(f); o.rewrites {
		a.forms++
	}
	a.share.Owner = budget.Owner{Address: address(r), Tenant: o.store.Tenants().Of(r)}
}

// address is the client's address, as Caddy sees it behind trusted proxies.
func address(r *http.Request) netip.Addr {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Unmap().Is4() {
		return addr.Unmap().WithZone("")
	}
	// One client has all of an IPv6 /64.
	net, _ := addr.WithZone("").Prefix(64)
	return net.Addr()
}

// receive reads the body and undoes its content coding. With [httpx.ErrNoRoom] the bytes read so
// far stay in Data.
func (a *arrival) receive(w http.ResponseWriter, r *http.Request) error {
	coding := httpx.Coding(r.Header)
	forms := a.forms
	if coding != "" {
		// The coded bytes lie in memory once. The copies of the decoded body are counted below.
		forms = 1
	}
	if a.adopt(r) {
		if int64(max(len(a.Data), len(a.Plain()))) > a.up.MaxBody {
			return httpx.TooLarge(a.up.MaxBody)
		}
	} else {
		a.share.Read(forms*r.ContentLength, func() error {
			return http.NewResponseController(w).SetReadDeadline(time.Now()) // which ends a read
		})
		var err error
		a.Data, err = httpx.Read(w, r, a.up.MaxBody, a.toll(r, forms))
		if a.share.Arrived() {
			return budget.ErrStalled
		}
		if err != nil {
			return err
		}
	}
	if coding == "" {
		return a.share.Grow(r.Context(), forms*int64(cap(a.Data)))
	}
	return a.decode(r, coding)
}

// toll reserves memory for so many copies of the encoded body.
func (a *arrival) toll(r *http.Request, forms int64) httpx.Toll {
	return func(came, has, room int) error {
		a.share.Progress(int64(came), int64(has))
		if r.ContentLength > 0 && int64(room) > r.ContentLength {
			return a.share.Grow(r.Context(), forms*int64(room))
		}
		return a.share.Grow(r.Context(), int64(room)) // there may be no more of it
	}
}

// decode undoes the content coding, unless that was done. A body that cannot be decoded is no error: why
// tells the reason.
func (a *arrival) decode(r *http.Request, coding string) error {
	sent := int64(cap(a.Data))
	// The decoder's window is memory of this request, too.
	if coding == "zstd" {
		sent += httpx.ZstdWindow
	}
	room := func(n int) error { return a.share.Grow(r.Context(), sent+a.forms*int64(n)) }
	switch {
	case a.Undone() != nil:
	case a.Plain() != nil:
		return room(cap(a.Plain()))
	default:
		httpx.Guard(a.up.Log, "decoding a request", func() {
			// This error stays if decoding panics.
			a.Decoded(nil, errUndecoded)
			a.Decoded(httpx.DecodeRequest(coding, a.Data, a.up.MaxBody, func(_, _, n int) error { return room(n) }))
		})
	}
	switch err := a.Undone(); {
	case err == nil:
		return nil
	case errors.Is(err, httpx.ErrTooLarge), errors.Is(err, httpx.ErrNoRoom), r.Context().Err() != nil:
		return err
	case errors.Is(err, httpx.ErrBomb):
		a.why = bypass{reason: reasonBomb, err: err}
	default:
		a.why = bypass{reason: reasonDecode, err: err}
	}
	return nil
}

// failBody responds in the client's format that a body could not be read.
func failBody(w http.ResponseWriter, r *http.Request, format wire.Format, err error) error {
	e, ok := errors.AsType[caddyhttp.HandlerError](err)
	// A client that has left gets no response.
	if !ok || r.Context().Err() != nil {
		return err
	}
	message := "the request's body could not be read"
	if errors.Is(err, httpx.ErrTooLarge) {
		message = fmt.Sprintf("the request is too large: %v", e.Err)
	}
	return httpx.Fail(w, format, &translate.Failure{Status: e.StatusCode, Message: message})
}

// replace replaces the body. It reports whether out is another one.
func (a *arrival) replace(r *http.Request, out []byte) bool {
	if body := a.body(); len(out) == len(body) && (len(out) == 0 || &out[0] == &body[0]) {
		return false
	}
	a.Data = out
	a.Decoded(nil, nil)
	r.Header = maps.Clone(r.Header)
	httpx.SetLength(r, len(out))
	return true
}

var errUndecoded = errors.New("the body could not be decoded")

func (a *arrival) room(r *http.Request, n int64) bool {
	return n <= a.up.MaxBody && a.share.Grow(r.Context(), int64(cap(a.Data)+cap(a.Plain()))+a.forms*n) == nil
}

func (a *arrival) body() []byte {
	if plain := a.Plain(); plain != nil {
		return plain
	}
	return a.Data
}

// shrink reduces the reserved memory to the size of the request as it is edited, if it is.
func (a *arrival) shrink(x *exchange) {
	n := int64(cap(a.Data) + cap(a.Plain()))
	sent := len(a.body())
	if x.Edit != nil {
		n += int64(x.View.Known().Size())
		if x.Partial {
			n += int64(cap(x.View.Raw))
		}
		if x.Edit.Prompt.Edited || x.Partial {
			sent = x.Edit.Prompt.Body.Len()
			n += int64(sent) // the layers behind and internal requests take the body in one piece
		}
	}
	a.share.Set(n + (a.forms-2)*int64(sent))
}

// passUnread forwards a request of which only the beginning was read.
func (o *site) passUnread(
	w http.ResponseWriter, r *http.Request, next caddyhttp.Handler, format wire.Format, a *arrival,
) error {
	// An upstream of another format cannot take the client's bytes.
	if !o.up.Verbatim(format) {
		budget.Refused()
		o.records.count(outcomeNoRoom)
		return budget.Fail(w, format)
	}
	budget.PassedUnread()
	o.bypasses.pass(w, r, format, bypass{reason: reasonNoRoom, err: httpx.ErrNoRoom})
	o.records.count(outcomePassed)
	if plain := a.Plain(); plain != nil {
		reuse.Recycle(plain)
		a.Decoded(nil, a.Undone())
	}
	a.share.Set(int64(cap(a.Data)))
	r.Body, r.GetBody = &unread{a: a, rest: r.Body, begun: bytes.NewReader(a.Data)}, nil
	return o.unknown(r, unlooked, format).through(next).ServeHTTP(w, r)
}

// unread is a body of which the beginning lies in memory, until it has been sent.
type unread struct {
	a     *arrival
	begun *bytes.Reader
	rest  io.ReadCloser
}

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	if u.begun != nil {
		if n, err := u.begun.Read(p); err == nil {
			return n, nil
		}
		u.begun = nil
		reuse.Recycle(u.a.Data)
		u.a.Data = nil
		u.a.share.Set(0)
	}
	return u.rest.Read(p)
}

// Close implements io.Closer.
func (u *unread) Close() error { return u.rest.Close() }

// headerBypass tells why a request was forwarded unmodified: the reason as in caddy_llm_cache_fail_open_total.
const headerBypass = "X-Llm-Cache-Bypass" //nolint:gosec // G101: the name of a header

// bypass is why a request goes upstream as it came, or, with a view, nowhere.
type bypass struct {
	reason string
	err    error      // without content
	view   *wire.View // of a request that is refused
}

type bypasses struct {
	log     *zap.Logger
	headers bool // to the client, too
	met     *Strangers
}

// pass counts a request that is forwarded unmodified, and tells the client and the operator why.
func (n *bypasses) pass(w http.ResponseWriter, r *http.Request, format wire.Format, b bypass) {
	httpx.FailOpen(b.reason)
	if n.headers {
		w.Header()[headerBypass] = []string{b.reason}
	}
	// Without a warning, only the bill would show that a client has changed.
	n.warn(r, format, b)
}

func (n *bypasses) warn(r *http.Request, format wire.Format, b bypass) {
	client := product(r.Header)
	fields := []zap.Field{
		zap.String("reason", b.reason), zap.String("client", client),
		zap.String("format", string(format)), zap.Error(b.err),
	}
	if n.met.Meet(client, b.reason) {
		n.log.Warn("a request goes upstream as it came: it cannot be read, or must not be changed; further ones of this "+
			"client are logged at debug level", fields...)
		return
	}
	n.log.Debug("a request goes upstream as it came", fields...)
}

// product is the name and the version by which a client calls itself.
func product(h http.Header) string {
	name, _, _ := strings.Cut(first(h, "User-Agent"), " ")
	return strings.ToValidUTF8(name[:min(len(name), 64)], "")
}

// unreadable returns the reason why the headers rule the body out, or "".
func unreadable(h http.Header) string {
	switch httpx.Coding(h) {
	case "", "gzip", "zstd":
	default:
		return reasonEncoding
	}
	ct := h.Get("Content-Type")
	if ct != "" && !httpx.IsJSON(httpx.MediaType(ct)) {
		return reasonContentType
	}
	return ""
}

// maxStrangers bounds the warnings of a process and their memory, because clients choose their names.
const maxStrangers = 256

// Strangers are the pairs of client and reason that were warned of.
type Strangers struct {
	mu  sync.Mutex
	met map[[2]string]struct{}
}

func strangersOf(s *state.State) *Strangers {
	return state.Part(s, func() *Strangers { return new(Strangers) })
}

// Meet reports whether a pair of client and reason is new.
func (s *Strangers) Meet(client, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := [2]string{client, reason}
	if _, known := s.met[k]; known || len(s.met) >= maxStrangers {
		return false
	}
	if s.met == nil {
		s.met = make(map[[2]string]struct{})
	}
	k[0] = strings.Clone(client) // the name is a part of a header, which may be long
	s.met[k] = struct{}{}
	return true
}
