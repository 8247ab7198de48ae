// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package openaichat

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// interception intercepts calls in answers of the chat completions API.
type interception struct {
	*hidden.Message
	calls []*openCall
	chat  gathered
	role  bool // the client has been told whose message it is
}

func (r *interception) Next() { r.calls, r.chat = nil, gathered{} }

// gathered gathers the texts of a chat answer as the insides of JSON strings.
type gathered struct {
	content, reasoning strings.Builder
	reasoningKey       string
}

// openCall is a call of a chat stream.
type openCall struct {
	hidden.Entry
	custom    bool // its input is free text
	id, name  string
	arguments strings.Builder
	extra     string // members that this package does not know, with commas in front
}

// DeclareTool implements [hidden.Codec].
func (Codec) DeclareTool(name, description, schema string) []byte {
	return rawjson.Object("type", "function", "function", rawjson.Object("name", name, "description", description, "parameters", []byte(schema)))
}

func (r *interception) Failure(kind, message string) []byte {
	return framing.SSE{}.Append(nil, "", rawjson.Object("error", rawjson.Object("message", message, "type", kind, "param", []byte("null"), "code", []byte("null"))))
}

func (r *interception) Event(f hidden.Event) {
	if !f.Root.Exists() {
		if string(f.Data) == "[DONE]" {
			if r.Held {
				return
			}
			r.Ended = true
		}
		r.Pass(f.Event)
		return
	}
	if id := f.Root.Get("id"); r.ID == "" {
		r.ID = strings.Clone(id.Raw)
	}
	if u := f.Root.Get("usage"); u.IsObject() {
		r.Now.Usage = readUsage(wire.Usage{}, u)
	}
	choice := f.Root.Get("choices.0")
	switch {
	case choice.Get("index").Int() != 0: // several were asked for
		r.Now.Opaque = true
		r.Pass(f.Event)
	case !choice.Exists():
		if r.Held {
			r.Last = bytes.Clone(f.Data) // where the usage goes
			return
		}
		if len(r.Past) == 0 || !f.Root.Get("usage").IsObject() {
			r.Pass(f.Event)
			return
		}
		r.Put("", r.chunk(f.Root, gjson.Result{}, nil, nil))
	default:
		r.choice(f, choice)
	}
}

// choice reads a chunk with a choice in it.
func (r *interception) choice(f hidden.Event, choice gjson.Result) {
	delta := choice.Get("delta")
	says := r.gather(delta)
	calls := delta.Get("tool_calls")
	finish := choice.Get("finish_reason").Str
	if len(r.Past) == 0 && finish == "" && !calls.IsArray() {
		r.role = r.role || delta.Get("role").Exists()
		r.Pass(f.Event)
		return
	}
	var shown []byte
	if item := lone(f.Root); item.Exists() {
		if c, _ := r.entry(item, 0); c != nil {
			r.Show(&c.Entry, f, textIn(item), c.teller(r))
			return
		}
	}
	same := len(r.Past) == 0 && calls.IsArray()
	if calls.IsArray() {
		var changed bool
		shown, changed = r.entries(f.Root, calls)
		same = same && !changed
	}
	if finish != "" {
		r.Now.StopReason = strings.Clone(finish)
		r.finish()
		if r.Now.Asks() && r.Now.Complete() {
			r.Held, r.Last = true, bytes.Clone(f.Data)
			if says {
				r.Put("", r.chunk(f.Root, choice, r.rest(delta, nil), []byte("null")))
			}
			return
		}
	}
	if same || len(r.Past) == 0 && !calls.IsArray() {
		r.role = r.role || delta.Get("role").Exists()
		r.Pass(f.Event)
		return
	}
	if !says && len(shown) == 0 && finish == "" && calls.IsArray() {
		return
	}
	r.Put("", r.chunk(f.Root, choice, r.rest(delta, shown), nil))
}

// rest is a delta with the calls that the client gets.
func (r *interception) rest(delta gjson.Result, calls []byte) []byte {
	with := map[string][]byte{"tool_calls": nil}
	if len(calls) > 0 {
		with["tool_calls"] = rawjson.Array(calls)
	}
	if r.role {
		with["role"] = nil // it stands in the first chunk
	}
	r.role = r.role || delta.Get("role").Exists()
	if delta.IsObject() {
		return rawjson.Rewrite(delta, []string{"tool_calls"}, with)
	}
	return rawjson.Rewrite(gjson.Parse("{}"), []string{"tool_calls"}, with)
}

// chunk is a chunk with another delta, under the first answer's id.
func (r *interception) chunk(root, choice gjson.Result, delta, finish []byte) []byte {
	with := map[string][]byte{}
	if r.ID != "" {
		with["id"] = []byte(r.ID)
	}
	if choice.Exists() {
		inner := map[string][]byte{"delta": delta}
		if finish != nil {
			inner["finish_reason"] = finish
		}
		with["choices"] = rawjson.Array(rawjson.Rewrite(choice, nil, inner))
	}
	if root.Get("usage").IsObject() && len(r.Past) > 0 {
		with["usage"] = r.TotalUsage("", appendCounts)
	}
	return rawjson.Rewrite(root, nil, with)
}

// gather keeps the texts of a delta and reports whether there were any.
func (r *interception) gather(delta gjson.Result) (says bool) {
	kept := r.Keep(len(delta.Raw))
	delta.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "content":
			if kept {
				r.Write(&r.chat.content, v)
			}
			r.Now.Opaque = r.Now.Opaque || v.IsArray()
			says = says || v.Type == gjson.String && v.Str != ""
		case "reasoning_content", "reasoning":
			if r.chat.reasoningKey == "" {
				r.chat.reasoningKey = strings.Clone(k.Str)
			}
			if kept && r.chat.reasoningKey == k.Str {
				r.Write(&r.chat.reasoning, v)
			}
			says = says || v.Type == gjson.String && v.Str != ""
		case "refusal":
			says = says || v.Type == gjson.String
		}
		return true
	})
	return says
}

// lone is the fragment of a call that is all that a chunk says, nothing where a chunk says
// anything else.
func lone(root gjson.Result) (item gjson.Result) {
	choice := root.Get("choices.0")
	if choice.Get("finish_reason").Str != "" || choice.Get("index").Int() != 0 || root.Get("usage").IsObject() {
		return item
	}
	choice.Get("delta").ForEach(func(k, v gjson.Result) bool {
		switch {
		case k.Str == "tool_calls" && v.Get("#").Int() == 1:
			item = v.Get("0")
			return true
		case k.Str == "role", v.Type == gjson.Null, v.Type == gjson.String && v.Str == "":
			return true
		}
		item = gjson.Result{}
		return false
	})
	return item
}

// textIn is the text that a fragment adds to its call.
func textIn(item gjson.Result) string {
	if custom := item.Get("custom"); custom.IsObject() {
		return wire.ArgumentsText(custom.Get("input"))
	}
	return wire.ArgumentsText(item.Get("function.arguments"))
}

// Index implements [hidden.Interception].
func (r *interception) Index(f hidden.Event) (int64, bool) {
	item := lone(f.Root)
	if !item.Exists() {
		return 0, false
	}
	c := r.find(item)
	if c == nil {
		return 0, false
	}
	return c.Index, true
}

// teller returns what hands chunks on that are of a call alone, under the client's index.
func (c *openCall) teller(r *interception) func(hidden.Event) {
	return func(f hidden.Event) {
		choice := f.Root.Get("choices.0")
		delta := choice.Get("delta")
		item := delta.Get("tool_calls.0")
		number := c.number(item)
		if len(r.Past) == 0 && f.Raw != nil && string(number) == item.Raw {
			r.role = r.role || delta.Get("role").Exists()
			r.Pass(f.Event)
			return
		}
		r.Put("", r.chunk(f.Root, choice, r.rest(delta, number), nil))
	}
}

// number is a fragment under the client's index.
func (c *openCall) number(item gjson.Result) []byte {
	if index := item.Get("index"); index.Exists() && int64(c.Client) == index.Int() {
		return []byte(item.Raw)
	}
	return rawjson.Rewrite(item, []string{"index"}, map[string][]byte{"index": strconv.AppendInt(nil, int64(c.Client), 10)})
}

// entries reads the calls of a delta and returns those of them that the
// client gets now, with commas between, and whether that is anything else.
func (r *interception) entries(root, list gjson.Result) (shown []byte, changed bool) {
	at := int64(-1)
	list.ForEach(func(_, item gjson.Result) bool {
		at++
		c, _ := r.entry(item, at)
		if c == nil { // there are too many to remember them
			index := strconv.AppendInt(nil, item.Get("index").Int()+int64(r.Shift()), 10)
			shown = rawjson.AppendElement(shown, rawjson.Rewrite(item, []string{"index"}, map[string][]byte{"index": index}))
			changed = true
			return true
		}
		alone := func() []byte {
			choice := root.Get("choices.0")
			delta := rawjson.Object("tool_calls", rawjson.Array([]byte(item.Raw)))
			return rawjson.Rewrite(root, nil, map[string][]byte{
				"choices": rawjson.Array(rawjson.Rewrite(choice, nil, map[string][]byte{"delta": delta, "finish_reason": []byte("null")})), "usage": nil,
			})
		}
		if !r.Shares(&c.Entry, textIn(item), c.teller(r), alone) {
			changed = true
			return true
		}
		number := c.number(item)
		changed = changed || string(number) != item.Raw
		shown = rawjson.AppendElement(shown, number)
		return true
	})
	return shown, changed
}

// find finds the call that a fragment belongs to, by the rules by which the decoder does;
// nil if it begins one.
func (r *interception) find(item gjson.Result) (c *openCall) {
	id, index := item.Get("id").Str, item.Get("index")
	switch {
	case index.Exists():
		for i := len(r.calls) - 1; i >= 0 && c == nil; i-- {
			if r.calls[i].Index == index.Int() {
				c = r.calls[i]
			}
		}
	case len(r.calls) > 0:
		c = r.calls[len(r.calls)-1]
	}
	if c != nil && id != "" && c.id != "" && id != c.id {
		return nil
	}
	return c
}

// entry finds the call that a fragment belongs to, and reports whether it begins with it.
func (r *interception) entry(item gjson.Result, position int64) (c *openCall, begun bool) {
	id, function, index := item.Get("id").Str, item.Get("function"), item.Get("index")
	custom := item.Get("custom")
	if custom.IsObject() {
		function = custom
	}
	if c = r.find(item); c == nil {
		if len(r.calls) == wire.MaxCalls || !r.Keep(hidden.BlockSize) {
			r.Now.Opaque = true
			return nil, false
		}
		if index.Exists() {
			position = index.Int()
		}
		c = &openCall{id: strings.Clone(id), name: strings.Clone(function.Get("name").Str), custom: custom.IsObject()}
		hides := !c.custom && r.Options.Hide(c.name)
		c.Entry = r.Open(position, hides, !hides && r.Options.Watch(c.name))
		r.calls = append(r.calls, c)
		begun = true
	}
	if c.id == "" {
		c.id = strings.Clone(id)
	}
	if r.Full {
		return c, begun
	}
	c.arguments.WriteString(textIn(item))
	item.ForEach(func(k, v gjson.Result) bool {
		switch k.Str {
		case "index", "id", "type", "function", "custom":
		default:
			if !strings.Contains(c.extra, ","+k.Raw+":") { // it stands in one fragment
				c.extra += "," + k.Raw + ":" + v.Raw
			}
		}
		return true
	})
	return c, begun
}

// element is the call as it stands in tool_calls.
func (c *openCall) element() []byte {
	kind, text := "function", "arguments"
	if c.custom {
		kind, text = "custom", "input"
	}
	call := rawjson.Object("id", c.id, "type", kind, kind, rawjson.Object("name", c.name, text, c.arguments.String()))
	return append(append(call[:len(call)-1], c.extra...), '}')
}

// finish makes parts of the texts and calls of a complete answer.
func (r *interception) finish() {
	r.Now.Parts = nil
	if r.Full {
		return
	}
	if r.chat.reasoning.Len() > 0 {
		r.Now.Parts = append(r.Now.Parts, hidden.Part{Kind: wire.KindThinking, Name: r.chat.reasoningKey, Raw: rawjson.Quoted(r.chat.reasoning.String())})
	}
	if r.chat.content.Len() > 0 {
		r.Now.Parts = append(r.Now.Parts, hidden.Part{Kind: wire.KindText, Raw: rawjson.Quoted(r.chat.content.String())})
	}
	for _, c := range r.calls {
		p := hidden.Part{Kind: wire.KindToolUse, ID: c.id, Name: c.name, Arguments: c.arguments.String(), Raw: c.element()}
		r.Judge(&c.Entry, &p, c.teller(r))
		r.Now.Parts = append(r.Now.Parts, p)
	}
}

func (r *interception) Spill() {
	for _, c := range r.calls {
		r.Release(&c.Entry, c.teller(r))
		c.arguments.Reset()
		c.extra = ""
	}
	r.chat = gathered{}
}

func (r *interception) Flush() {
	root := gjson.ParseBytes(r.Last)
	choice := root.Get("choices.0")
	if choice.Exists() {
		r.Put("", r.chunk(root, choice, []byte("{}"), []byte(`"stop"`)))
	} else { // the usage came last
		r.Put("", rawjson.Rewrite(root, []string{"choices"}, map[string][]byte{
			"id": []byte(r.ID), "choices": []byte(`[{"index":0,"delta":{},"finish_reason":"stop"}]`), "usage": nil,
		}))
		r.Put("", r.chunk(root, choice, nil, nil))
	}
	r.Put("", []byte("[DONE]"))
	r.Ended = true
}

func (r *interception) Document(body []byte) bool {
	root := gjson.ParseBytes(body)
	choice := root.Get("choices.0")
	message := choice.Get("message")
	if !message.IsObject() {
		return false
	}
	if r.ID == "" {
		r.ID = root.Get("id").Raw
	}
	r.Now.Usage = readUsage(wire.Usage{}, root.Get("usage"))
	r.Now.StopReason = choice.Get("finish_reason").Str
	r.Now.Opaque = root.Get("choices.#").Int() != 1
	r.gather(message)
	at := int64(-1)
	message.Get("tool_calls").ForEach(func(_, item gjson.Result) bool {
		at++
		if id := item.Get("id").Str; id == "" {
			r.Now.Opaque = true
		}
		r.entry(item, at)
		return true
	})
	r.finish()
	return true
}

func (r *interception) Join(last []byte) []byte {
	var content, reasoning, calls []byte
	key := ""
	for _, it := range r.Iterations() {
		for i := range it.Parts {
			switch p := &it.Parts[i]; {
			case p.Hidden:
			case p.Kind == wire.KindText:
				content = append(content, p.Raw[1:len(p.Raw)-1]...)
			case p.Kind == wire.KindThinking:
				key = p.Name
				reasoning = append(reasoning, p.Raw[1:len(p.Raw)-1]...)
			default:
				calls = rawjson.AppendElement(calls, p.Raw)
			}
		}
	}
	root := gjson.ParseBytes(last)
	choice := root.Get("choices.0")
	message := map[string][]byte{"tool_calls": nil, "content": []byte("null")}
	order := []string{"content", "tool_calls"}
	if len(calls) > 0 {
		message["tool_calls"] = rawjson.Array(calls)
	}
	if len(content) > 0 || len(calls) == 0 {
		message["content"] = rawjson.Quoted(content)
	}
	if key != "" {
		message[key] = rawjson.Quoted(reasoning)
		order = append(order, key)
	}
	inner := map[string][]byte{"message": rawjson.Rewrite(choice.Get("message"), order, message)}
	if r.Now.Asks() {
		inner["finish_reason"] = []byte(`"stop"`)
	}
	with := map[string][]byte{"choices": rawjson.Array(rawjson.Rewrite(choice, nil, inner))}
	if r.ID != "" {
		with["id"] = []byte(r.ID)
	}
	if len(r.Past) > 0 && root.Get("usage").IsObject() {
		with["usage"] = r.TotalUsage("", appendCounts)
	}
	return rawjson.Rewrite(root, nil, with)
}
