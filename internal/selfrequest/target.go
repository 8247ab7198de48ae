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
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/keepalive"
)

// Target has the parts of a client's request that an internal request repeats, and a body of its
// own.
type Target struct {
	Open
	// User is the user of the client's request, empty for a target restored from disk.
	User tenant.User
	// Project is the project of the client's request, empty likewise.
	Project string
	remote  string
	tls     *tls.ConnectionState
	secret  *keepalive.Credential
}

// Open is the part of a target that may be stored on disk. It has neither credentials nor the
// client's address.
type Open struct {
	// Server is the name of the HTTP server that received the request.
	Server string `json:"server"`
	// Method is the request's method.
	Method string `json:"method"`
	// URI is the request's URI, without possible credentials.
	URI string `json:"uri"`
	// Host is the request's host.
	Host string `json:"host"`
	// Header is the request's header, without credentials.
	Header http.Header `json:"header"`
	// Body is the compressed body to send.
	Body []byte `json:"body"`
	// Length is the length of the uncompressed body.
	Length int `json:"length"`
	// Client is the format of the client's request.
	Client wire.Format `json:"client"`
	// Model is the model that the client requested.
	Model string `json:"model"`
	// Way is the request's path through this module's handlers.
	Way Path `json:"way,omitzero"`
}

var packer = func() *zstd.Encoder {
	// fails for bad options only
	e, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	return e
}()

// maxBody bounds an uncompressed body, in bytes.
const maxBody = 1 << 30

// Pack compresses a body for [Open].
func Pack(body []byte) []byte {
	return slices.Clip(packer.EncodeAll(body, make([]byte, 0, len(body)/4)))
}

// NewTarget makes a target that sends a body on the path of r, for a model in a format.
func NewTarget(r *http.Request, body []byte, client wire.Format, model string) *Target {
	t := &Target{
		Open: Open{
			Method: r.Method, URI: r.RequestURI, Host: r.Host, Header: http.Header{},
			Body: Pack(body), Length: len(body), Client: client, Model: model,
		},
		remote: r.RemoteAddr, secret: new(keepalive.Credential),
	}
	// The internal request starts from the original one, and goes through the same rewrites.
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
		// Handlers and matchers on the path may look at the connection.
		t.tls = &tls.ConnectionState{
			Version: r.TLS.Version, HandshakeComplete: true, CipherSuite: r.TLS.CipherSuite,
			ServerName: r.TLS.ServerName,
		}
	}
	if srv, ok := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok && srv != nil {
		t.Server = srv.Name()
	}
	return t
}

// Reopen makes a target from its stored part, without credentials.
func Reopen(o Open) *Target {
	if o.Header == nil {
		o.Header = http.Header{}
	}
	return &Target{Open: o, remote: "127.0.0.1:0", secret: new(keepalive.Credential)}
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

// Plain returns the uncompressed body.
func (t *Target) Plain() ([]byte, error) { return httpx.Decode("zstd", t.Body, maxBody, nil) }

// request makes the request.
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
	header := t.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	// The client's own User-Agent comes first, as providers tell the clients of a plan by it.
	header.Set("User-Agent", strings.TrimSpace(header.Get("User-Agent")+" "+version.Agent()))
	r := (&http.Request{
		Method: t.Method, URL: u, RequestURI: uri, Host: t.Host, RemoteAddr: t.remote, TLS: t.tls,
		// handlers on the path may modify the values
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,

		// The real body is set by the handler that forwards the request, so that no other handler
		// on the path can send it to an upstream.
		Body: io.NopCloser(unreached{}), ContentLength: int64(t.Length),
	}).WithContext(ctx)
	t.secret.Reveal(func(name, value string) {
		if name != queryField {
			r.Header[name] = append(r.Header[name], value)
		}
	})
	return r, nil
}

// errURI reports that the stored URI of a request cannot be parsed.
var errURI = errors.New("the URI of a request of ours cannot be read")

// queryField is the name of a query's sealed part. No header has this name.
const queryField = "?"

// openParameters are query parameters that are known not to be secret.
var openParameters = [...]string{"alt", "api-version", "beta"}

// openURI removes query parameters that may be credentials from a URI, and returns them as a query.
func openURI(uri string) (open, secret string) {
	open, query, _ := strings.Cut(uri, "?")
	mark := "?"
	// The Gemini API takes its key as a parameter.
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

// unreached is the body of an internal request that has not reached its handler.
type unreached struct{}

// ErrUnreached reports that an internal request did not reach a handler that forwards it.
var ErrUnreached = errors.New("a request of ours has left its way")

func (unreached) Read([]byte) (int, error) { return 0, ErrUnreached }
