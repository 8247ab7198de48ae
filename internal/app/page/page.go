// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the live page: what turns cost and saved, warm conversations, the state of upstreams, local servers
// and stores. It is one HTML file, one script and one style sheet without dependencies, a stream of events with the
// view, and answers to questions about past days. The report is the same page in one file.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

//go:embed assets
var assets embed.FS

const (
	// every is the interval between two views, while a viewer is connected.
	every = 2 * time.Second
	// silence is the time without news after which a stream sends a sign of life.
	silence = 15 * time.Second
	// maxViewers bounds the concurrent streams.
	maxViewers = 256
)

// policy forbids the page to load anything from elsewhere, or to send anything there.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Page serves the page. All viewers see the same view.
type Page struct {
	source    Source
	writeTime time.Duration // maximum for a viewer to take an event
	answers   *answers

	html  []byte
	files map[string]file

	mu      sync.Mutex
	at      time.Time // creation of last
	last    []byte    // the view as an event's data
	viewers int
	ends    map[*http.Server]chan struct{} // closed when the server shuts down
}

type file struct {
	data []byte
	kind string
}

// footed puts the version into the footer of the page.
func footed(page []byte) []byte {
	return bytes.ReplaceAll(page, []byte("{version}"), []byte(html.EscapeString(version.String())))
}

// New returns a page with the data of a source.
func New(source Source) *Page {
	p := &Page{
		source: source, writeTime: 5 * time.Second, files: map[string]file{}, ends: map[*http.Server]chan struct{}{},
		answers: newAnswers(source),
	}
	p.html = footed(read("page.html"))
	for name, kind := range map[string]string{
		script: "text/javascript; charset=utf-8",
		style:  "text/css; charset=utf-8",
	} {
		data := read(name)
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		// The hash in the name keeps a new page from meeting an old script in a browser's cache.
		hashed := name[:len(name)-len(ext)] + "-" + hex.EncodeToString(sum[:6]) + ext
		p.html = bytes.ReplaceAll(p.html, []byte(`"`+name+`"`), []byte(`"`+hashed+`"`))
		p.files[hashed] = file{data, kind}
	}
	return p
}

// The names of the files in assets.
const script, style = "page.js", "page.css"

func read(name string) []byte {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // embedded at compile time
	}
	return data
}

// ServeHTTP serves the page at a folder, and its files by the last element of the path.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "it can only be looked at", http.StatusMethodNotAllowed)
		return
	}
	_, name := path.Split(r.URL.Path)
	switch name {
	case "":
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(p.html)
	case "data":
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		_, _ = w.Write(p.data())
	case "events":
		p.stream(w, r)
	case "period", "turns", "csv":
		p.answers.serve(w, r, name)
	default:
		f, ok := p.files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", f.kind)
		// The name has a hash of the content.
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(f.data)
	}
}

// Serves reports whether the last element of a path belongs to the page.
func Serves(name string) bool {
	switch name {
	case "", "data", "events", "period", "turns", "csv":
		return true
	}
	return strings.HasPrefix(name, "page-")
}

// data returns the view as JSON, at most every/2 old.
func (p *Page) data() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && time.Since(p.at) < every/2 {
		return p.last
	}
	b, err := json.Marshal(p.source.Look())
	if err != nil {
		b = []byte("{}") // NaN or infinity in the view
	}
	p.last, p.at = b, time.Now()
	return p.last
}

func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	ended, ok := p.enter(r)
	if !ok {
		http.Error(w, "too many look at it", http.StatusServiceUnavailable)
		return
	}
	defer p.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	// nginx would buffer the stream.
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the admin endpoint's read deadline would end the stream
	send := func(parts ...[]byte) bool {
		_ = out.SetWriteDeadline(time.Now().Add(p.writeTime))
		for _, b := range parts {
			if _, err := w.Write(b); err != nil {
				return false
			}
		}
		return out.Flush() == nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	// The end of the body needs a deadline, too, however long ago the last event was.
	defer func() { _ = out.SetWriteDeadline(time.Now().Add(p.writeTime)) }()
	var sent time.Time
	for {
		b := p.data()
		if !send([]byte("data: "), b, []byte("\n\n")) {
			return
		}
		sent = time.Now()
		for {
			select {
			case <-r.Context().Done():
				return
			case <-ended:
				return
			case <-tick.C:
			}
			if next := p.data(); !same(b, next) {
				break
			}
			// Proxies close silent connections, and the script notices a dead one.
			if time.Since(sent) > silence {
				if !send([]byte(":\n\n")) {
					return
				}
				sent = time.Now()
			}
		}
	}
}

// same reports whether two views are equal but for their time.
func same(a, b []byte) bool {
	// The time is the first member.
	_, a, _ = bytes.Cut(a, []byte(","))
	_, b, _ = bytes.Cut(b, []byte(","))
	return bytes.Equal(a, b)
}

// enter counts a viewer, and returns a channel that is closed when the server shuts down.
func (p *Page) enter(r *http.Request) (ended <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers >= maxViewers {
		return nil, false
	}
	p.viewers++
	srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if srv == nil {
		return nil, true
	}
	end := p.ends[srv]
	if end == nil {
		end = make(chan struct{})
		p.ends[srv] = end
		// Open streams must not delay a reload.
		srv.RegisterOnShutdown(func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.ends[srv] == end {
				delete(p.ends, srv)
				close(end)
			}
		})
	}
	return end, true
}

func (p *Page) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers--
}
