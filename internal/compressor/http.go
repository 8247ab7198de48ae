// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package compressor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/lingua"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

// HTTP sends texts to a server, which may run any model on any device. The server can read the
// texts. See docs/guides/lingua.md for the protocol.
type HTTP struct {
	// URL is the base URL of the server: POST <url>/compress, GET <url>/health.
	URL string `json:"url"`
	// Timeout bounds a request. Default: 1m.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	client *http.Client
}

// CaddyModule returns the Caddy module information.
func (HTTP) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.compressors.http", New: func() caddy.Module { return new(HTTP) }}
}

// Provision checks the URL. The server need not run yet.
func (h *HTTP) Provision(caddy.Context) error {
	u, err := url.Parse(h.URL)
	switch {
	case err != nil:
		return fmt.Errorf("url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("url: %q is no http or https URL", u.Redacted())
	case h.Timeout < 0:
		return errors.New("timeout: below zero")
	}
	timeout := time.Duration(h.Timeout)
	if timeout == 0 {
		timeout = time.Minute
	}
	h.URL = strings.TrimSuffix(h.URL, "/")
	h.client = &http.Client{
		Timeout: timeout,
		// Texts must go to no other server than the configured one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("the server redirects") },
	}
	return nil
}

type question struct {
	Text string  `json:"text"`
	Rate float64 `json:"rate"`
}

// answer is the body of a response. Words are pairs of a word and 1 or 0, for kept or dropped, and
// may be missing.
type answer struct {
	Text   *string `json:"text"`
	Words  []label `json:"words"`
	Before int     `json:"before"`
	After  int     `json:"after"`
}

type label lingua.Word

func (l *label) UnmarshalJSON(b []byte) error {
	var keep int
	pair := []any{&l.Text, &keep}
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errors.New("a word is not a pair of a string and 0 or 1")
	}
	l.Keep = keep != 0
	return nil
}

// Compress implements Compressor. A response longer than the text is an error.
func (h *HTTP) Compress(ctx context.Context, text string, rate float64) (lingua.Result, error) {
	body, err := json.Marshal(question{text, rate})
	if err != nil {
		return lingua.Result{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/compress", bytes.NewReader(body))
	if err != nil {
		return lingua.Result{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	var a answer
	// The list of words is several times as long as the text.
	if err := h.ask(req, &a, 1<<16+64*int64(len(text))); err != nil {
		return lingua.Result{}, err
	}
	switch {
	case a.Text == nil:
		return lingua.Result{}, errors.New("the server's answer has no text")
	case len(*a.Text) > len(text):
		return lingua.Result{}, fmt.Errorf("the server made %d bytes of %d", len(*a.Text), len(text))
	case a.Before < 0 || a.After < 0:
		return lingua.Result{}, errors.New("the server counts below zero")
	}
	r := lingua.Result{Text: *a.Text, Before: a.Before, After: a.After}
	for _, w := range a.Words {
		r.Words = append(r.Words, lingua.Word(w))
	}
	return r, nil
}

// Health implements Compressor.
func (h *HTTP) Health(ctx context.Context) Health {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/health", nil)
	var a Health
	if err == nil {
		err = h.ask(req, &a, 1<<16)
	}
	if err != nil {
		return Health{Error: err.Error()}
	}
	return a
}

func (h *HTTP) ask(req *http.Request, into any, limit int64) error {
	req.Header.Set("User-Agent", version.Agent())
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading the server's answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the server answers %d", resp.StatusCode)
	case int64(len(b)) > limit:
		return fmt.Errorf("the server's answer is longer than %d bytes", limit)
	case !utf8.Valid(b):
		return errors.New("the server's answer is no UTF-8")
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	return nil
}

// UnmarshalCaddyfile sets the compressor up from Caddyfile tokens. Syntax:
//
//	http <url> {
//		timeout <duration>
//	}
func (h *HTTP) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&h.URL) || d.NextArg() {
		return d.ArgErr()
	}
	return option.Block(d, "http", option.Options{"timeout": option.Duration(&h.Timeout)})
}
