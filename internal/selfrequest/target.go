// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package selfrequest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

// Target is what an errand needs to take the way that a client's request took, with a
// body of its own.
type Target struct {
	Open
	// Person is whoever the request was of, empty for one that has lain on disk.
	Person tenant.Person
	remote string
	tls    *tls.ConnectionState
	secret *keepalive.Credential
	direct func(w http.ResponseWriter, r *http.Request) error // outside of a Caddy configuration
}

// Open is what of a target may lie on disk: neither credentials nor the address of
// whoever sent the request.
type Open struct {
	// Server is the name of the HTTP server that took the request.
	Server string `json:"server"`
	// Method is that of the request.
	Method string `json:"method"`
	// URI is that of the request, without what may be a credential.
	URI string `json:"uri"`
	// Host is whom the client asked.
	Host string `json:"host"`
	// Header is that of the request, without credentials.
	Header http.Header `json:"header"`
	// Body is what is to be sent, compressed.
	Body []byte `json:"body"`
	// Length is that of the body, plain.
	Length int `json:"length"`
	// Client is the format of the client's request.
	Client wire.Format `json:"client"`
	// Model is the one that the client asked for.
	Model string `json:"model"`
	// Way is how the request came to the handler.
	Way Way `json:"way,omitzero"`
}

var packer = func() *zstd.Encoder {
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2)) // fails for bad options only
	return e
}()

// longestBody bounds a body, plain, in bytes.
const longestBody = 1 << 30

// Pack compresses a body for [Open].
func Pack(body []byte) []byte {
	return slices.Clip(packer.EncodeAll(body, make([]byte, 0, len(body)/4)))
}

// NewTarget copies what is needed to send a body the way that r took, for a model in a
// format.
func NewTarget(r *http.Request, body []byte, client wire.Format, model string) *Target {
	t := &Target{
		Open: Open{
			Method: r.Method, URI: r.RequestURI, Host: r.Host, Header: http.Header{},
			Body: Pack(body), Length: len(body), Client: client, Model: model,
		},
		remote: r.RemoteAddr, secret: new(keepalive.Credential),
	}
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		t.Method, t.URI, t.remote = original.Method, original.RequestURI, original.RemoteAddr
	}
	var query string
	if t.URI, query = openURI(t.URI); query != "" {
		t.secret.Seal(queryField, query)
	}
	for name, values := range r.Header {
		switch {
		case tenant.IsSecret(r, name):
			for _, v := range values {
				t.secret.Seal(name, v)
			}
		case name != "Content-Encoding" && name != "Content-Length" && name != "Transfer-Encoding":
			t.Header[name] = slices.Clone(values) // the original shares its array with the credential
		}
	}
	if r.TLS != nil {
		t.tls = &tls.ConnectionState{Version: r.TLS.Version, HandshakeComplete: true, CipherSuite: r.TLS.CipherSuite, ServerName: r.TLS.ServerName}
	}
	if srv, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && srv != nil {
		t.Server = srv.Name()
	}
	return t
}

// Reopen returns a target that has lain on disk, without credentials.
func Reopen(o Open) *Target {
	if o.Header == nil {
		o.Header = http.Header{}
	}
	return &Target{Open: o, remote: "127.0.0.1:0", secret: new(keepalive.Credential)}
}

// Direct has the target lead to a handler outside of a Caddy configuration.
func (t *Target) Direct(h caddyhttp.MiddlewareHandler, next caddyhttp.Handler) {
	t.direct = func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) }
}

// Size implements keepalive.Payload.
func (t *Target) Size() int64 {
	n := int64(cap(t.Body)) + t.secret.Size() + int64(len(t.URI)) + 512
	for name, values := range t.Header {
		n += int64(len(name) + 48)
		for _, v := range values {
			n += int64(len(v) + 16)
		}
	}
	return n
}

// Wipe implements keepalive.Payload.
func (t *Target) Wipe() {
	t.secret.Wipe()
	clear(t.Body)
	t.Body, t.Header = nil, nil
}

// Plain returns the body.
func (t *Target) Plain() ([]byte, error) { return httpx.Decode("zstd", t.Body, longestBody, nil) }

// request makes the request. Its body comes only when it has reached a handler that
// sends such errands on: no other way leads to an upstream.
func (t *Target) request(ctx context.Context) (*http.Request, error) {
	uri, mark := t.URI, "?"
	if strings.Contains(uri, "?") {
		mark = "&"
	}
	t.secret.Reveal(func(name, value string) {
		if name == queryField {
			uri += mark + value
		}
	})
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, errURI // the URL's own error quotes it
	}
	r := (&http.Request{
		Method: t.Method, URL: u, RequestURI: uri, Host: t.Host, RemoteAddr: t.remote, TLS: t.tls,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: t.Header.Clone(), // handlers on the way may write into the values

		Body: io.NopCloser(unreached{}), ContentLength: int64(t.Length),
	}).WithContext(ctx)
	t.secret.Reveal(func(name, value string) {
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

// unreached is the body of an errand that has not come to its handler.
type unreached struct{}

// ErrUnreached says that an errand has not come to a handler that sends it on.
var ErrUnreached = errors.New("a request of ours has left its way")

func (unreached) Read([]byte) (int, error) { return 0, ErrUnreached }
