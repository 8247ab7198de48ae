// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Command least is Caddy with a minimal handler for requests to models: it reads each body whole, hashes it, passes it
// on, and reads the usage in the events of the answer. The layers table of the bench compares with it.
package main

import (
	"bytes"
	"io"
	"net/http"
	"sync"

	"github.com/tidwall/gjson"
	"github.com/zeebo/xxh3"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() {
	caddy.RegisterModule(least{})
	httpcaddyfile.RegisterHandlerDirective("least", func(httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		return least{}, nil
	})
	httpcaddyfile.RegisterDirectiveOrder("least", httpcaddyfile.Before, "reverse_proxy")
	caddycmd.Main()
}

type least struct{}

// CaddyModule returns the Caddy module information.
func (least) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.least", New: func() caddy.Module { return new(least) }}
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// seen keeps the compiler from leaving the work out.
var seen sync.Map

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (least) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	b, _ := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	b.Grow(int(r.ContentLength) + bytes.MinRead)
	if _, err := b.ReadFrom(r.Body); err != nil {
		return caddyhttp.Error(http.StatusBadRequest, err)
	}
	hash := xxh3.Hash(b.Bytes())
	r.Body = io.NopCloser(bytes.NewReader(b.Bytes()))
	a := &answer{ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: w}}
	err := next.ServeHTTP(a, r)
	seen.Store(hash, a.tokens)
	seen.Delete(hash)
	return err
}

// answer reads the usage of the events that pass.
type answer struct {
	*caddyhttp.ResponseWriterWrapper
	line   []byte // the beginning of a line
	tokens int64
}

func (a *answer) Write(p []byte) (int, error) {
	for rest := p; ; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			a.line = append(a.line, rest...)
			break
		}
		line := rest[:i]
		if len(a.line) > 0 {
			line = append(a.line, line...)
			a.line = a.line[:0]
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			if n := gjson.GetBytes(data, "usage.output_tokens"); n.Exists() {
				a.tokens = n.Int()
			}
		}
		rest = rest[i+1:]
	}
	return a.ResponseWriter.Write(p)
}
