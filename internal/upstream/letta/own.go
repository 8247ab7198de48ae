// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"bytes"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

// own is a layer that keeps an agent's calls of its own tools, and their results, out of
// its answers: a client would take them for calls that it is to answer.
func own(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a := new(without)
		a.Answer = httpx.NewAnswer(w, a)
		if err := next.ServeHTTP(a, r); err != nil {
			return err
		}
		return a.finish()
	})
}

// without is an answer without them.
type without struct {
	httpx.Answer
	stream *framing.SSEFramer
	whole  []byte
	waits  bool        // for all of an answer in one piece
	at     map[int]int // where an item stands for the client, by where it stood; -1 for nowhere
	shown  int
	out    []byte
}

// Begin implements [httpx.Interceptor].
func (a *without) Begin(status int) {
	h := a.Header()
	if status/100 == 2 && httpx.Coding(h) == "" {
		switch kind := httpx.MediaType(h.Get("Content-Type")); {
		case httpx.IsStream(kind):
			a.stream, a.at = new(framing.SSEFramer), map[int]int{}
			delete(h, "Content-Length")
		case httpx.IsJSON(kind):
			a.waits = true
			return
		}
	}
	a.Send()
}

// Holds implements [httpx.Interceptor].
func (a *without) Holds() bool { return a.waits }

// Take implements [httpx.Interceptor].
func (a *without) Take(p []byte) (int, error) {
	switch {
	case a.waits:
		if a.whole = append(a.whole, p...); len(a.whole) > longestAnswer {
			return len(p), a.finish()
		}
		return len(p), nil
	case a.stream == nil:
		return a.ResponseWriter.Write(p)
	}
	a.out = a.out[:0]
	a.stream.Feed(p, func(e framing.Event) { a.out = a.event(a.out, e) })
	if a.stream.Err() != nil { // no stream of events after all
		a.out, a.stream = append(a.out, a.stream.Rest()...), nil
	}
	if len(a.out) == 0 {
		return len(p), nil
	}
	_, err := a.ResponseWriter.Write(a.out)
	return len(p), err
}

// finish passes on what is held.
func (a *without) finish() error {
	var rest []byte
	switch {
	case a.waits:
		a.waits = false
		rest, a.whole = fewer(a.whole, "output"), nil
		a.Header()["Content-Length"] = []string{strconv.Itoa(len(rest))}
		a.Send()
	case a.stream != nil:
		a.stream.End(func(e framing.Event) { rest = append(rest, e.Raw...) })
	}
	if len(rest) == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(rest)
	return err
}

// its are the kinds of items that are the agent's own business.
var its = map[string]bool{"function_call": true, "function_call_output": true}

// event appends an event as the client is to have it.
func (a *without) event(out []byte, e framing.Event) []byte {
	if len(e.Data) == 0 {
		return append(out, e.Raw...)
	}
	data := gjson.ParseBytes(e.Data)
	if index := data.Get("output_index"); index.Exists() {
		old := int(index.Int())
		at, ok := a.at[old]
		if !ok {
			if at = -1; !its[data.Get("item.type").Str] {
				at = a.shown
				a.shown++
			}
			a.at[old] = at
		}
		if at < 0 {
			return out
		}
		if at == old {
			return append(out, e.Raw...)
		}
		patched, err := wire.Patch(e.Data, wire.Member{Name: "output_index", Value: strconv.AppendInt(nil, int64(at), 10)})
		if err != nil {
			return append(out, e.Raw...)
		}
		return framing.SSE{}.Append(out, string(e.Name), patched)
	}
	if few := fewer(e.Data, "response.output"); len(few) != len(e.Data) {
		return framing.SSE{}.Append(out, string(e.Name), few)
	}
	return append(out, e.Raw...)
}

// fewer is an object without the items in a list of it that are the agent's own business.
func fewer(object []byte, path string) []byte {
	list := gjson.GetBytes(object, path)
	if !list.IsArray() || list.Index == 0 {
		return object
	}
	var kept bytes.Buffer
	kept.WriteByte('[')
	left := false
	list.ForEach(func(_, item gjson.Result) bool {
		if its[item.Get("type").Str] {
			left = true
			return true
		}
		if kept.Len() > 1 {
			kept.WriteByte(',')
		}
		kept.WriteString(item.Raw)
		return true
	})
	if !left {
		return object
	}
	kept.WriteByte(']')
	out := make([]byte, 0, len(object))
	out = append(append(out, object[:list.Index]...), kept.Bytes()...)
	return append(out, object[list.Index+len(list.Raw):]...)
}
