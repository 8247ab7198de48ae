// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package relay_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lru"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/testkit"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/delta"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/relay"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// turns returns the bodies of a conversation of a megabyte: messages, followed by tools.
func turns(n int) (all [][]byte) {
	var said, tools bytes.Buffer
	for i := range 150 {
		fmt.Fprintf(&tools, `{"name":"tool%d","description":"%0400d"},`, i, i)
	}
	for i := 0; len(all) < n; i++ {
		fmt.Fprintf(&said, `{"role":"assistant","content":"Turn %d."},{"role":"user","content":"`, i)
		for j := range 60 {
			fmt.Fprintf(&said, "%x %d: a line of a file\\n", i*j*2654435761, j)
		}
		said.WriteString(`"},`)
		if said.Len() > 960<<10 {
			all = append(all, fmt.Appendf(nil, `{"model":"m","messages":[%s{}],"tools":[%s{}]}`, said.Bytes(), tools.Bytes()))
		}
	}
	return all
}

// BenchmarkKnown measures the edge's work for a request of a megabyte that continues the previous
// one, without the request itself. cpu-ns/op is the processor time of this process, garbage
// collection included: other load on the machine does not affect it.
func BenchmarkKnown(b *testing.B) {
	bodies := turns(100)
	for _, with := range []bool{false, true} {
		b.Run(map[bool]string{false: "without", true: "with"}[with], func(b *testing.B) {
			var e *retain.Engine
			if with {
				e = retain.New(delta.NewEdge(), lru.NewPool[sessioncache.Tenant](256<<20), time.Hour, time.Now)
			}
			sent := 0
			l := relay.Layer(caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
				p, _ := httpx.Whole(r)
				sent = len(p.Data)
				w.Header().Set(delta.Handle, "h")
				if r.Header.Get("Content-Encoding") != "" {
					w.Header().Set(delta.Delta, delta.Made)
				}
				w.WriteHeader(http.StatusOK)
				return nil
			}), e, true, func(_ *http.Request, body []byte) (retain.Key, *retain.Request) {
				return retain.Key{Session: "s"}, &retain.Request{Body: body}
			}, nil)
			i := 0
			ask := func() {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/messages", nil)
				httpx.SetBody(r, bodies[i%len(bodies)])
				if err := l.ServeHTTP(httptest.NewRecorder(), r); err != nil {
					b.Fatal(err)
				}
				i++
			}
			ask()
			ask()
			b.SetBytes(int64(len(bodies[0])))
			from := testkit.ProcessorTime()
			for b.Loop() {
				ask()
			}
			b.ReportMetric(float64(testkit.ProcessorTime()-from)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(sent), "sent-B")
		})
	}
}
