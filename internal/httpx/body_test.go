// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/requestbody"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

func TestReadBody(t *testing.T) {
	const limit = 5 << 20
	for _, size := range []int{
		0, 1, 511, 512, 513, FirstBuffer - 1, FirstBuffer, FirstBuffer + 1, secondBuffer + 1,
		limit,
	} {
		body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
		for name, length := range map[string]int64{"known": int64(size), "unknown": -1, "too short": min(1, int64(size))} {
			for kind, reader := range map[string]func(io.Reader) io.Reader{
				"whole":  func(r io.Reader) io.Reader { return r },
				"halves": iotest.HalfReader, "end with data": iotest.DataErrReader,
			} {
				r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(reader(bytes.NewReader(body))))
				r.ContentLength = length
				got, err := Read(httptest.NewRecorder(), r, limit, nil)
				if err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes, length %s, in %s: got %d bytes, %v", size, name, kind, len(got), err)
				}
			}
		}
	}
}

func TestReadBodyFails(t *testing.T) {
	gone := errors.New("gone")
	for _, test := range []struct {
		name   string
		body   io.Reader
		length int64
		status int
	}{
		{"declared too large", strings.NewReader(""), 11, http.StatusRequestEntityTooLarge},
		{"too large", strings.NewReader("01234567890"), -1, http.StatusRequestEntityTooLarge},
		{"too large and said to be short", strings.NewReader("01234567890"), 3, http.StatusRequestEntityTooLarge},
		{"cut", io.MultiReader(strings.NewReader("0123"), iotest.ErrReader(gone)), 10, http.StatusBadRequest},
		{
			"refused before", iotest.ErrReader(caddyhttp.Error(http.StatusTooManyRequests, gone)), 10,
			http.StatusTooManyRequests,
		},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", io.NopCloser(test.body))
		r.ContentLength = test.length
		_, err := Read(httptest.NewRecorder(), r, 10, nil)
		if e, ok := errors.AsType[caddyhttp.HandlerError](err); !ok || e.StatusCode != test.status {
			t.Errorf("%s: got %v, want status %d", test.name, err, test.status)
		}
	}
}

// TestReadNamesTheBound: a body that has come in pieces is too large for the lower one of
// the bounds of this handler and of a request_body in front, and the error names that one.
func TestReadNamesTheBound(t *testing.T) {
	for _, c := range []struct {
		outer int64 // max_size of request_body, 0 for none
		want  string
	}{{0, "more than 10 bytes"}, {5, "more than 5 bytes"}, {20, "more than 10 bytes"}} {
		r := httptest.NewRequest(http.MethodPost, "/",
			io.NopCloser(strings.NewReader("0123456789abcdefghijklmnopqrstuvwxyz")))
		r.ContentLength = -1
		var err error
		next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
			_, err = Read(w, r, 10, nil)
			return nil
		})
		if e := (requestbody.RequestBody{MaxSize: c.outer}).ServeHTTP(httptest.NewRecorder(), r, next); e != nil {
			t.Fatal(e)
		}
		if e, ok := errors.AsType[caddyhttp.HandlerError](err); !ok || e.StatusCode != http.StatusRequestEntityTooLarge ||
			!errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %d in front: got %v, want %s", c.outer, err, c.want)
		}
	}
}

// TestReadAllTrustsLittle: allocations are proportional to the bytes received, not to the declared
// length.
func TestReadAllTrustsLittle(t *testing.T) {
	got, err := readAll(strings.NewReader("x"), 1<<30, 1<<30, nil)
	if err != nil || len(got) != 1 || cap(got) > FirstBuffer {
		t.Errorf("%d bytes in %d, %v", len(got), cap(got), err)
	}
	got, err = readAll(io.LimitReader(zeros{}, FirstBuffer+1), 1<<30, 1<<30, nil)
	if err != nil || len(got) != FirstBuffer+1 || cap(got) > secondBuffer {
		t.Errorf("%d bytes in %d, %v", len(got), cap(got), err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestContentCoding(t *testing.T) {
	for want, values := range map[string][]string{
		"": nil, "gzip": {" GZIP "}, "zstd": {"zstd"}, "gzip, zstd": {"gzip, zstd"}, "gzip,zstd": {"gzip", "zstd"},
	} {
		if got := Coding(http.Header{"Content-Encoding": values}); got != want {
			t.Errorf("%q: got %q, want %q", values, got, want)
		}
	}
	if got := Coding(http.Header{"Content-Encoding": {"identity"}}); got != "" {
		t.Errorf("identity: got %q", got)
	}
}

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
	SwapBody(r, body, body)
	if View(r, wire.OpenAIChat) != v {
		t.Error("the body is the same, and its view is gone")
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

// TestViewOfEdited: the parsed form of a body without its last members is that of the body in one piece.
func TestViewOfEdited(t *testing.T) {
	v := &wire.View{Format: wire.OpenAIChat, Raw: []byte(`{"model":"m"}`), Model: "m"}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	SetBody(r, v.Raw)
	body, err := OutgoingEdits(r, 1<<20)
	if err != nil || !Same(body.Raw, v.Raw) {
		t.Fatalf("got %s, %v, want the body itself", body.Raw, err)
	}
	longer, err := body.With(wire.Cut{Start: 12, End: 12, With: []byte(`,"n":1`)})
	if err != nil {
		t.Fatal(err)
	}
	defer SwapEdited(r, body.Raw, longer)()
	SetView(r, v)
	if got := View(r, wire.OpenAIChat); got != nil {
		t.Errorf("got a view of %s for a body that is not in one piece", got.Raw)
	}
	const want = `{"model":"m","n":1}`
	whole, err := Outgoing(r, 1<<20)
	if err != nil || string(whole) != want {
		t.Fatalf("got %s, %v, want %s", whole, err, want)
	}
	if got := View(r, wire.OpenAIChat); got == nil || !Same(got.Raw, whole) || got.Model != "m" {
		t.Errorf("got %+v, want the view of %s", got, want)
	}
	if again, err := OutgoingEdits(r, 1<<20); err != nil || again != longer {
		t.Errorf("got %+v, %v, want the body with its edit", again, err)
	}
}

// edited returns a payload of a long body with edits, and the body with its edits.
func edited(tb testing.TB) (p *Payload, want []byte) {
	tb.Helper()
	raw := append(reuse.Buffer(5000), bytes.Repeat([]byte("abcde"), 1000)...)
	b, err := wire.NewBody(raw, wire.Cut{With: []byte("first")}, wire.Cut{Start: 10, End: 20, With: []byte("replaced")},
		wire.Cut{Start: 30, End: 40}, wire.Cut{Start: 4000, End: 4000, With: []byte("inserted")},
		wire.Cut{Start: 5000, End: 5000, With: []byte("last")})
	if err != nil {
		tb.Fatal(err)
	}
	p = new(Payload)
	p.Edit(b)
	return p, bytes.Clone(b.Bytes())
}

// TestEditedPayload: each way to read a body with edits gives the whole of it, as often as it is sent.
func TestEditedPayload(t *testing.T) {
	p, want := edited(t)
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	p.Attach(r)
	read := map[string]func(io.Reader) ([]byte, error){
		"whole": io.ReadAll,
		"written": func(r io.Reader) ([]byte, error) {
			var b bytes.Buffer
			_, err := io.Copy(&b, r)
			return b.Bytes(), err
		},
		"begun and written": func(r io.Reader) ([]byte, error) {
			b := bytes.NewBuffer(make([]byte, 4003))
			if _, err := io.ReadFull(r, b.Bytes()); err != nil {
				return nil, err
			}
			_, err := io.Copy(b, r)
			return b.Bytes(), err
		},
	}
	for _, step := range []int{1, 3, 7, 977, 32 << 10} {
		read[fmt.Sprintf("in steps of %d", step)] = func(r io.Reader) (all []byte, err error) {
			for err == nil {
				step := make([]byte, step)
				var n int
				n, err = r.Read(step)
				all = append(all, step[:n]...)
			}
			if err == io.EOF {
				err = nil
			}
			return all, err
		}
	}
	for name, read := range read {
		again, err := r.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		for kind, body := range map[string]io.ReadCloser{"first": r.Body, "again": again} {
			if _, ok := Whole(r); !ok && kind == "first" {
				t.Errorf("%s: the body is not whole before it is read", name)
			}
			if got, err := read(body); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %s: got %d bytes, %v, want %d", name, kind, len(got), err, len(want))
			}
			if err := body.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := Outgoing(r, 1<<20)
	if err != nil || !bytes.Equal(got, want) || !Same(got, p.Bytes()) {
		t.Errorf("in one piece: got %d bytes, %v, want %d, and the same ones each time", len(got), err, len(want))
	}
	SetView(r, &wire.View{Format: wire.OpenAIChat, Raw: p.Data})
	if View(r, wire.OpenAIChat) != nil {
		t.Error("the view of the bytes before the edits passes for one of the body")
	}
}

// TestLateReader: memory that is still being sent, by the request's own body or by that of a layer which
// left it as it is, is not recycled. A later reader gets an error.
func TestLateReader(t *testing.T) {
	for _, layer := range []bool{false, true} {
		p, want := edited(t)
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		p.Attach(r)
		if layer {
			body := p.Bytes()
			defer SwapBody(r, body, body)()
		}
		sent, writes := io.Pipe()
		done := make(chan struct{})
		body := r.Body
		go func() {
			defer close(done)
			_, err := io.Copy(writes, body)
			writes.CloseWithError(err)
		}()
		if _, err := io.ReadFull(sent, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if p.Recycle() {
			t.Errorf("layer %t: a body that is being sent was recycled", layer)
		}
		rest, err := io.ReadAll(sent)
		if err != nil || !bytes.Equal(rest, want[1:]) {
			t.Errorf("layer %t: got %d further bytes, %v, want %d", layer, len(rest), err, len(want)-1)
		}
		<-done
		late, err := r.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if !p.Recycle() {
			t.Errorf("layer %t: a body that was sent is not recycled", layer)
		}
		if n, err := late.Read(make([]byte, 1)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("layer %t: a late reader got %d bytes, %v, want %v", layer, n, err, http.ErrBodyReadAfterClose)
		}
	}
}
