// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// A body can be read again and again while the request lasts, and not at all
// once its memory has been given back.
func TestPayload(t *testing.T) {
	data := append(reuse.Buffer(5000), bytes.Repeat([]byte("abcde"), 1000)...)
	p := &Payload{Data: data}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Attach(r)
	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []io.Reader{r.Body, struct{ io.Reader }{again}} {
		got, err := io.ReadAll(body)
		if err != nil || len(got) != 5000 {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	}
	for range 2 { // reverse_proxy goes on with the same body
		if err := r.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r.Body); err != nil || len(got) != 5000 {
			t.Errorf("read %d bytes of a body that was sent before, %v", len(got), err)
		}
	}
	half, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, half, 100); err != nil {
		t.Fatal(err)
	}
	_ = half.Close()
	if _, err := half.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a body that was sent in part: got %v, want it closed", err)
	}
	late, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	p.Recycle()
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a late reader got %v", err)
	}
	if n, err := io.Copy(io.Discard, late); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a late copy got %d bytes, %v", n, err)
	}
}

// The parsed form is known while the request has that body, and for no other body.
func TestView(t *testing.T) {
	body := []byte(`{"model":"m"}`)
	v := &wire.View{Format: wire.OpenAIChat, Raw: body}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	SetBody(r, body)
	if View(r, wire.OpenAIChat) != nil {
		t.Error("known, and nobody has read it")
	}
	SetView(r, v)
	if View(r, wire.OpenAIChat) != v || View(r, wire.Anthropic) != nil {
		t.Error("it is not known in its format, or in another")
	}
	restore := SwapBody(r, body, []byte(`{"model":"n"}`))
	if View(r, wire.OpenAIChat) != nil {
		t.Error("what was read of one body is told of another")
	}
	SetView(r, v)
	if View(r, wire.OpenAIChat) != nil {
		t.Error("what was read of one body is noted of another")
	}
	restore()
	if View(r, wire.OpenAIChat) != v {
		t.Error("the first body is back, and not what was read of it")
	}
}
