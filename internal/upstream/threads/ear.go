// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package threads

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream/retain"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/intercept"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

const maxReply = 8 << 20

type ear struct {
	of     *retain.Request
	turn   *wire.Decoder
	words  *intercept.Interceptor
	stream bool
	body   []byte
	over   bool
}

// Hear implements [retain.Driver].
func (d *Driver) Hear(r *retain.Request, stream bool) retain.Ear {
	never := func(string) bool { return false }
	e := &ear{
		of: r, stream: stream, turn: wire.NewDecoder(d.format, stream),
		words: intercept.NewInterceptor(d.format, intercept.Options{Intercepts: never}),
	}
	if stream {
		e.words.Follow(e.turn.Follow())
	}
	return e
}

// Feed implements [retain.Ear].
func (e *ear) Feed(p []byte) (v retain.Verdict) {
	if e.over {
		return v
	}
	if e.stream {
		e.words.Feed(p)
		e.turn.Feed(p)
	} else {
		if e.body = append(e.body, p...); len(e.body) > maxReply {
			e.over, e.body = true, nil
			return v
		}
		if !bytes.HasSuffix(bytes.TrimRight(e.body, " \t\r\n"), []byte{'}'}) || !rawjson.ValidBytes(e.body) {
			return v
		}
		e.turn.Feed(e.body)
		e.turn.End()
		e.words.Whole(e.body)
	}
	t := e.turn.Turn()
	if !t.Done {
		return v
	}
	e.over = true
	if it := e.words.Iteration(); t.ID != "" && !t.Failed() && it.Complete() {
		v.Reply = reply(e.of.View, it)
	}
	if v.Reply == nil {
		return v
	}
	if v.History = with(e.of, v.Reply); v.History != nil {
		v.Handle = t.ID
	} else {
		v.Reply = nil
	}
	return v
}

func reply(v *wire.View, it *intercept.Iteration) (out []byte) {
	for i := range it.Parts {
		p := &it.Parts[i]
		if !v.Traits().Threads && !carried(p.Raw) {
			return nil
		}
		out = rawjson.AppendElement(out, p.Raw)
	}
	if v.Traits().Threads && len(out) > 0 {
		out = append(append([]byte(`{"role":"assistant","content":[`), out...), `]}`...)
	}
	return out
}

func carried(item []byte) bool {
	switch gjson.GetBytes(item, "type").Str {
	case "message", "function_call", "custom_tool_call":
		return true
	// Stored reasoning has no content, and its id is known to the provider only.
	case "reasoning":
		return gjson.GetBytes(item, "encrypted_content").Str != ""
	}
	return false
}

func with(r *retain.Request, reply []byte) []wire.Hash {
	body := append(append([]byte(`{"`+lists[r.View.Format]+`":[`), reply...), `]}`...)
	v, err := wire.Parse(r.View.Format, body, nil)
	if err != nil {
		return nil
	}
	return append(r.History[:len(r.History):len(r.History)], history(v, r.Plain != nil || !v.Traits().Threads)...)
}
