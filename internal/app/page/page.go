// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package page is the live page: what was saved today, whose conversations are warm, how
// boxes, pings and stores are. It is one HTML file, one script and one style sheet that
// need nothing else, and a stream of what they show.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"sync"
	"time"
)

//go:embed assets
var assets embed.FS

const (
	// every is how often what is shown is looked at, where anybody looks.
	every = 2 * time.Second
	// silence is after how long a stream without news shows that it is alive.
	silence = 15 * time.Second
	// mostViewers bounds the streams that are open at a time.
	mostViewers = 256
)

// policy keeps the page from loading or sending anything elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Page serves the page. All viewers see the same.
type Page struct {
	look      func() View
	writeTime time.Duration // that a viewer may take for an event

	html  []byte
	files map[string]file

	mu      sync.Mutex
	at      time.Time // when last was made
	last    []byte    // the view as an event's data
	viewers int
	ends    map[*http.Server]chan struct{} // closed when it shuts down
}

type file struct {
	data []byte
	kind string
}

// New returns a page that shows what look tells.
func New(look func() View) *Page {
	p := &Page{look: look, writeTime: 5 * time.Second, files: map[string]file{}, ends: map[*http.Server]chan struct{}{}}
	p.html = read("page.html")
	for name, kind := range map[string]string{"page.js": "text/javascript; charset=utf-8", "page.css": "text/css; charset=utf-8"} {
		data := read(name)
		sum := sha256.Sum256(data)
		ext := path.Ext(name)
		hashed := name[:len(name)-len(ext)] + "-" + hex.EncodeToString(sum[:6]) + ext // so that the page never meets an older script
		p.html = bytes.ReplaceAll(p.html, []byte(`"`+name+`"`), []byte(`"`+hashed+`"`))
		p.files[hashed] = file{data, kind}
	}
	return p
}

func read(name string) []byte {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it was there when this was compiled
	}
	return data
}

// ServeHTTP serves what lies under a folder by the last element of the path: the page at
// the folder itself.
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
	default:
		f, ok := p.files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h.Set("Content-Type", f.kind)
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = w.Write(f.data)
	}
}

// data returns what is shown now, as JSON: at most that old.
func (p *Page) data() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && time.Since(p.at) < every/2 {
		return p.last
	}
	b, err := json.Marshal(p.look())
	if err != nil {
		b = []byte("{}") // numbers that are none
	}
	p.last, p.at = b, time.Now()
	return p.last
}

// stream sends what is shown, again and again.
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
	h.Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the admin endpoint's would end the stream
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
	// The end of the body has to be written, too, however long ago the last event was.
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
			if time.Since(sent) > silence {
				if !send([]byte(":\n\n")) {
					return
				}
				sent = time.Now()
			}
		}
	}
}

// same reports whether two views differ in nothing but the time at which they were made,
// which comes first.
func same(a, b []byte) bool {
	_, a, _ = bytes.Cut(a, []byte(","))
	_, b, _ = bytes.Cut(b, []byte(","))
	return bytes.Equal(a, b)
}

// enter counts a viewer, and returns what is closed when the server shuts down: streams
// must not hold up a reload.
func (p *Page) enter(r *http.Request) (ended <-chan struct{}, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.viewers >= mostViewers {
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
