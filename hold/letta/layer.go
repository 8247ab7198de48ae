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

package letta

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/hold"
	"github.com/caddy-llm-cache/caddy-llm-cache/hold/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/layer"
	"github.com/caddy-llm-cache/caddy-llm-cache/translate"
	"github.com/caddy-llm-cache/caddy-llm-cache/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/wire"
)

// Site is a site with Letta behind it.
type Site struct {
	engine  *hold.Engine
	headers bool // answers say how their requests went
	log     *zap.Logger
	now     func() time.Time
}

// Open returns the site of an upstream, nil if that is no Letta that is spoken to as
// this package does.
func Open(engines *relay.Engines, o *relay.Options, up *upstream.Profile, now func() time.Time) *Site {
	if up.Name() != "letta" || up.Format != "" {
		return nil
	}
	return &Site{engine: engines.Of(driver{}, o, now), headers: up.Headers, log: up.Log, now: now}
}

// Layer returns next with what Letta needs before it. of says of which conversation a
// request is. A site of nil returns next itself.
func (s *Site) Layer(next caddyhttp.Handler, of func(*http.Request) hold.Key) caddyhttp.Handler {
	if s == nil {
		return next
	}
	return &talk{s, next, of}
}

// talk is the layer.
type talk struct {
	*Site
	next caddyhttp.Handler
	of   func(*http.Request) hold.Key
}

// ServeHTTP implements caddyhttp.Handler. What is not understood passes.
func (t *talk) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := layer.Whole(r)
	f, known := wire.Detect(r.Method, r.URL.Path)
	if !ok || !known || !f.Traits().FlatItems || layer.Coding(r.Header) != "" {
		return t.next.ServeHTTP(w, r)
	}
	var said *said
	var request *hold.Request
	var err error
	layer.Guard(t.log, "reading a request for Letta", func() {
		if said, err = read(f, p.Data); said != nil {
			request, err = said.request()
		}
	})
	if why, ok := err.(refused); ok { //nolint:errorlint // it is never wrapped
		return layer.Fail(w, f, &translate.Failure{Status: http.StatusBadRequest, Type: "invalid_request_error", Message: string(why)})
	}
	if request == nil {
		return t.next.ServeHTTP(w, r)
	}
	request.Mark = mark(r.Header)
	k := t.of(r)
	if o, all := t.engine.Answered(k, request); o != nil {
		switch {
		case all: // there is nothing to answer
			return said.answer(w, o, "", t.now())
		case again(r.Header, o):
			return said.answer(w, o, o.Text, t.now())
		}
	}
	defer layer.ReplaceOutgoing(r, p.Data, request.Body)()
	of := func(*http.Request, []byte) (hold.Key, *hold.Request) { return k, request }
	return relay.Layer(own(t.next), t.engine, t.headers, of, nil).ServeHTTP(w, r)
}
