// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// compat has the changes that a local server needs in requests, besides their format: the
// preset's entry, overridden by the operator's options.
type compat struct {
	drop         []string
	body         []bodyMember // by name
	reasoning    string
	answers      string
	maxTokens    int
	cacheControl bool
	chat         bool // adapt messages to chat templates
	// maxTokensOnly: max_completion_tokens becomes max_tokens.
	maxTokensOnly bool
	// template reports that the chat template has a switch for thinking (enable_thinking).
	template bool
	// off has the members that turn thinking off. thinks: see preset.
	off    []wire.Member
	thinks bool
}

// bodyMember is a member added to each request: a JSON value or a placeholder for one.
type bodyMember struct {
	name        string
	value       []byte
	placeholder string
	yields      bool // the client's nested members win
	absent      bool // set only if the client has no such member
}

// validateCompat returns an error for the first invalid option about members of requests.
func (u *Upstream) validateCompat() error {
	for _, name := range u.Drop {
		if !plainName(name) {
			return fmt.Errorf("drop: %q is not the name of a member", name)
		}
		if name == "model" || name == "messages" || name == "stream" {
			return fmt.Errorf("drop: a request without %s is none", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.Body)) {
		if !plainName(name) || name == "messages" {
			return fmt.Errorf("body: %q is not the name of a member to add", name)
		}
		if !json.Valid(u.Body[name]) {
			return fmt.Errorf("body: the value of %s is not JSON", name)
		}
	}
	switch u.Reasoning {
	case "", reasoningContent, reasoningAlias, reasoningNone:
	default:
		return fmt.Errorf("reasoning must be one of %s, %s, %s, got %q", reasoningContent, reasoningAlias, reasoningNone,
			u.Reasoning)
	}
	switch u.SystemMessages {
	case "", translate.InPlace, translate.Folded:
	default:
		return fmt.Errorf("system_messages must be one of %s, %s, got %q", translate.InPlace, translate.Folded,
			u.SystemMessages)
	}
	return nil
}

func plainName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
}

func (u *Upstream) compat() *compat {
	p := u.preset()
	if u == nil || p.official {
		return nil
	}
	d := &compat{
		drop: p.drop, reasoning: p.reasoning, answers: p.answers, maxTokens: p.maxTokens, maxTokensOnly: p.maxTokensOnly,
		cacheControl: u.keepsMarkers(),
	}
	if u.Drop != nil {
		d.drop = u.Drop
	}
	if u.Reasoning != "" {
		d.reasoning = u.Reasoning
	}
	if u.MaxTokensDefault != nil {
		d.maxTokens = *u.MaxTokensDefault
	}
	body := make(map[string]json.RawMessage, len(p.body)+len(u.Body))
	for name, value := range p.body {
		body[name] = json.RawMessage(value)
	}
	maps.Copy(body, u.Body)
	for _, name := range slices.Sorted(maps.Keys(body)) {
		value := body[name]
		// null removes a member of the preset.
		if string(value) == "null" {
			continue
		}
		_, stated := u.Body[name]
		// Objects of a preset yield to the client's members. Configured values do not.
		m := bodyMember{name: name, value: value, yields: !stated && value[0] == '{'}
		d.template = d.template || name == templateArguments && m.yields
		if s := gjson.ParseBytes(value).Str; strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
			m.placeholder = s
		}
		d.body = append(d.body, m)
	}
	if p.sessionMember != "" && u.Body[p.sessionMember] == nil {
		d.body = append(d.body, bodyMember{name: p.sessionMember, placeholder: "{" + sessionPlaceholder + "}", absent: true})
	}
	for _, name := range slices.Sorted(maps.Keys(p.off)) {
		d.off = append(d.off, wire.Member{Name: name, Value: []byte(p.off[name])})
	}
	d.thinks = p.thinks
	d.chat = u.Preset != "" && !p.stateful
	// Without a change the whole layer is left out.
	if len(d.drop) == 0 && len(d.body) == 0 && d.reasoning == "" && d.maxTokens == 0 && d.cacheControl && !d.chat {
		return nil
	}
	return d
}

// translated returns the changes for requests in chat completions that the translation has written. It names
// thinking reasoning_content, has markers only where the upstream takes them, and writes neither a content of
// null nor developer messages. So most presets need no search in the messages.
func (d *compat) translated() *compat {
	if d == nil {
		return nil
	}
	t := *d
	t.chat, t.cacheControl = false, true
	if t.reasoning == reasoningContent && !t.thinks {
		t.reasoning = ""
	}
	return &t
}

func (d *compat) slotted() bool {
	return d != nil && slices.ContainsFunc(d.body,
		func(m bodyMember) bool { return m.placeholder == "{http.vars.llm_slot}" })
}

// saltPlaceholder stands for the salt that separates the tenants' prefix caches in the engine.
const (
	saltVar         = "llm_cache_salt"
	saltPlaceholder = "{http.vars." + saltVar + "}"
)

func (d *compat) salted() bool {
	return d != nil && slices.ContainsFunc(d.body, func(m bodyMember) bool { return m.placeholder == saltPlaceholder })
}

// CacheSalt returns the salt that separates the prefix cache of a request's tenant, "" if the
// engine gets no salt.
func (p *Profile) CacheSalt(r *http.Request) string {
	if p.Salt == nil || !p.compat.salted() {
		return ""
	}
	return p.Salt(r)
}

// keepsMarkers reports whether cache_control stays in untranslated requests.
func (u *Upstream) keepsMarkers() bool {
	if u == nil || u.CacheControl == nil {
		return u == nil || u.Preset == "" || u.preset().stateful || u.preset().cacheControl
	}
	return *u.CacheControl
}

// adjusting adapts requests in the upstream's format to this kind of server.
type adjusting struct {
	p      *Profile
	compat *compat
	next   caddyhttp.Handler
	view   *wire.View  // the client's request, nil if it was not parsed
	format wire.Format // the upstream's format
	native bool        // the client's format, too
}

// Compat returns next behind a layer that adapts requests of a client's format to this kind of
// server, or next itself if no change is needed. A view of the client's request, nil for none, saves
// parsing it again.
func (p *Profile) Compat(next caddyhttp.Handler, client wire.Format, v *wire.View) caddyhttp.Handler {
	// The Responses API of a hosted provider stores answers unless store says otherwise.
	if p.compat == nil || p.preset().hosted && p.Target(client).Traits().KeepsAnswers {
		return next
	}
	d := &adjusting{
		p: p, compat: p.compat, next: next, view: v, format: p.Target(client), native: p.Target(client) == client,
	}
	if !d.native && d.format.Traits().ServersVary {
		d.compat = p.translatedCompat
	}
	return d
}

// ServeHTTP implements caddyhttp.Handler. A request that cannot be changed is forwarded unmodified.
func (d *adjusting) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	body, err := httpx.Outgoing(r, d.p.MaxBody)
	if err != nil {
		return d.next.ServeHTTP(w, r) //nolint:nilerr // what is not understood passes untouched
	}
	if salt := d.p.CacheSalt(r); salt != "" {
		caddyhttp.SetVar(r.Context(), saltVar, salt)
	}
	view := httpx.View(r, d.format)
	if view == nil && d.view != nil && d.view.Format == d.format && httpx.Same(body, d.view.Raw) {
		view = d.view
	}
	out := &wire.Body{Raw: body}
	httpx.Guard(d.p.Log, "adjusting a request", func() { out = d.compat.apply(d.format, body, view, values(r)) })
	defer httpx.SwapEdited(r, body, out)()
	// The upstream's responses may use the server's name for thinking, and repeat ids.
	renames, identifies := d.compat.answers == reasoningAlias, d.native && d.p.preset().circular
	if !d.format.Traits().ServersVary || !renames && !identifies {
		return d.next.ServeHTTP(w, r)
	}
	id := `"chatcmpl-` + rand.Text() + `"`
	edit := func(out, object []byte, said string) []byte {
		if identifies {
			object = identified(object, id)
		}
		if renames {
			return appendRenamed(out, object, said)
		}
		return append(out, object...)
	}
	return httpx.NewEditor(w, func(out []byte, e framing.Event) []byte {
		if !identifies && !bytes.Contains(e.Data, []byte(`"`+reasoningAlias+`"`)) {
			return append(out, e.Raw...)
		}
		return httpx.EditObject(out, e.Raw, func(out, chunk []byte) []byte { return edit(out, chunk, "choices.0.delta") })
	}, func(body []byte) []byte { return edit(nil, body, "choices.0.message") }).Serve(d.next, r)
}

func identified(object []byte, newID string) []byte {
	// Clients never send the id of a completion back, so a new one is safe.
	id := gjson.GetBytes(object, "id")
	if id.Type != gjson.String || id.Index == 0 {
		return object
	}
	return slices.Concat(object[:id.Index], []byte(newID), object[id.Index+len(id.Raw):])
}

// appendRenamed appends an object with the thinking at the given path under its other name.
func appendRenamed(out, object []byte, at string) []byte {
	said := gjson.GetBytes(object, at)
	value := said.Get(reasoningAlias)
	// Servers may send both names; then the client's own is there already.
	if !value.Exists() || value.Index == 0 || said.Get(reasoningContent).Exists() {
		return append(out, object...)
	}
	key := bytes.LastIndex(object[:value.Index], []byte(`"`+reasoningAlias+`"`))
	if key < 0 {
		return append(out, object...)
	}
	out = append(out, object[:key]...)
	out = append(out, `"`+reasoningContent+`"`...)
	return append(out, object[key+len(reasoningAlias)+2:]...)
}

// values returns a function that resolves a request's placeholders to JSON, nil for an empty one.
func values(r *http.Request) func(string) []byte {
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return func(string) []byte { return nil }
	}
	return func(s string) []byte {
		name := s[1 : len(s)-1]
		v, known := repl.Get(name)
		if !known || strings.Contains(name, "{") { // several placeholders in a row
			v = repl.ReplaceAll(s, "")
		}
		text, isText := v.(string)
		switch {
		case v == nil || isText && text == "":
			return nil
		// The module's own placeholders are typed: a session's id is a string even if it looks like
		// a number.
		case isText && !strings.HasPrefix(name, "http.llm_cache.") && json.Valid([]byte(text)):
			return []byte(text)
		}
		out, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		return out
	}
}

// apply returns the body to send. View is the parsed body, or nil.
func (d *compat) apply(format wire.Format, body []byte, view *wire.View, resolve func(string) []byte) *wire.Body {
	if named, changed := d.names(format, body, view); changed {
		// The view describes the old body.
		body, view = named, nil
	}
	object, err := wire.ReadObject(body, view)
	if err != nil {
		return &wire.Body{Raw: body}
	}
	members := make([]wire.Member, 0, len(d.drop)+len(d.body)+2)
	for _, name := range d.drop {
		members = append(members, wire.Member{Name: name})
	}
	if format.Traits().ServersVary {
		if options := gjson.ParseBytes(object.Value("stream_options")); options.IsObject() &&
			!options.Get("include_usage").Exists() {
			members = append(members, wire.Member{Name: "stream_options"}) // mlx_lm.server requires include_usage there
		}
		if d.maxTokens > 0 && object.Value("max_tokens") == nil && object.Value("max_completion_tokens") == nil {
			members = append(members, wire.Member{Name: "max_tokens", Value: fmt.Append(nil, d.maxTokens)})
		}
	}
	if newer := object.Value("max_completion_tokens"); d.maxTokensOnly && newer != nil {
		members = append(members, wire.Member{Name: "max_completion_tokens"}, wire.Member{Name: "max_tokens", Value: newer})
	}
	// Chat templates and servers have a switch of their own for thinking.
	off := ""
	if (d.template || d.off != nil) && format.Traits().ServersVary {
		off = thinksOff(&object)
	}
	if off != "" && !slices.ContainsFunc(d.off, func(m wire.Member) bool { return m.Name == off }) {
		members = append(members, wire.Member{Name: off})
	}
	if off != "" {
		members = append(members, d.off...)
	}
	for _, m := range d.body {
		if m.absent && (!format.Traits().ServersVary || object.Value(m.name) != nil) {
			continue
		}
		value := m.value
		if m.name == templateArguments && off != "" {
			value = merged(value, []byte(thinksNot))
		}
		if m.yields {
			value = merged(value, object.Value(m.name))
		}
		if m.placeholder != "" {
			if value = resolve(m.placeholder); value == nil {
				continue
			}
		}
		// The member replaces an earlier one of the same name.
		members = append(slices.DeleteFunc(members, func(o wire.Member) bool { return o.Name == m.name }),
			wire.Member{Name: m.name, Value: value})
	}
	out, err := object.Edit(members...)
	if err != nil {
		return &wire.Body{Raw: body}
	}
	return out
}

func isReasoning(b *wire.Block) bool { return b.Kind == wire.KindThinking && b.Has(wire.FlagMember) }

func (d *compat) reasoningCuts(v *wire.View, i int, other string) []wire.Cut {
	// Clients may send the thinking under both names. One of them is enough.
	span := v.Blocks[i].Span
	twin, second := i+1, false
	if i > 0 && isReasoning(&v.Blocks[i-1]) && v.Blocks[i-1].Message == v.Blocks[i].Message {
		twin, second = i-1, true
	}
	both := twin < len(v.Blocks) && isReasoning(&v.Blocks[twin]) && v.Blocks[twin].Message == v.Blocks[i].Message
	switch {
	case d.reasoning == reasoningNone && both && !second && v.Adjacent(span, v.Blocks[twin].Span):
		return []wire.Cut{v.Without(rawjson.Span{Start: span.Start, End: v.Blocks[twin].Span.End})}
	case d.reasoning == reasoningNone && both && second && v.Adjacent(v.Blocks[twin].Span, span):
		return nil // the first cut covers both
	case d.reasoning != reasoningNone && !bytes.HasPrefix(v.Bytes(span), []byte(`"`+other+`"`)):
		return nil
	case both || d.reasoning == reasoningNone:
		return []wire.Cut{v.Without(span)}
	}
	return []wire.Cut{{Start: span.Start, End: span.Start + int32(len(other)) + 2, With: []byte(`"` + d.reasoning + `"`)}}
}

// thinksOff returns the name of the member by which a chat request turns thinking off, "" for none: in the words of
// OpenAI, DeepSeek and Z.ai, Alibaba, OpenRouter, and Ollama.
func thinksOff(request *wire.Object) string {
	for _, w := range [...]struct{ name, inner, value string }{
		{"reasoning_effort", "", `"none"`},
		{"thinking", "type", `"disabled"`},
		{"enable_thinking", "", "false"},
		{"reasoning", "enabled", "false"},
		{"reasoning", "effort", `"none"`},
		{"think", "", "false"},
	} {
		value := request.Value(w.name)
		if w.inner != "" && value != nil {
			value = []byte(gjson.GetBytes(value, w.inner).Raw)
		}
		if string(value) == w.value {
			return w.name
		}
	}
	return ""
}

// templateArguments is the request member with the arguments of the chat template.
const templateArguments = "chat_template_kwargs"

// merged returns the members of both objects. Those of over win, and so does a value that is no object.
func merged(object, over []byte) []byte {
	root := gjson.ParseBytes(over)
	switch {
	case root.Type == gjson.Null: // or absent
		return object
	case !root.IsObject():
		return over
	}
	var members []wire.Member
	root.ForEach(func(key, value gjson.Result) bool {
		// The name keeps its escapes.
		members = append(members, wire.Member{Name: key.Raw[1 : len(key.Raw)-1], Value: []byte(value.Raw)})
		return true
	})
	return translate.ReplaceMembers(object, members...)
}

// forTemplates returns the cuts that make messages ones that chat templates and servers take.
func forTemplates(v *wire.View) (cuts []wire.Cut) {
	for i := range v.Messages {
		m := &v.Messages[i]
		// A null content is rendered as the word None or refused, an absent one fails in servers that look it up.
		empty := !slices.ContainsFunc(v.Blocks[m.First:m.End], func(b wire.Block) bool {
			return b.Kind == wire.KindText || b.Kind == wire.KindToolResult
		})
		// Only OpenAI's models know the role developer.
		system := m.Role == wire.RoleSystem
		for members := rawjson.Walk(v.Raw, int(m.Span.Start)); (system || empty) && members.Next(); {
			span := members.Skip()
			value := v.Bytes(span)
			switch string(members.Key) {
			case "role":
				if system && string(value) == `"developer"` {
					cuts = append(cuts, wire.Cut{Start: span.Start, End: span.End, With: []byte(`"system"`)})
				}
				system = false
			case "content":
				if empty && string(value) == "null" {
					cuts = append(cuts, wire.Cut{Start: span.Start, End: span.End, With: []byte(`""`)})
				}
				empty = false
			}
		}
		if empty && (m.Role == wire.RoleAssistant || m.Role == wire.RoleTool) {
			end := m.Span.End - 1
			cuts = append(cuts, wire.Cut{Start: end, End: end, With: []byte(`,"content":""`)})
		}
	}
	for i := range v.Blocks {
		b := &v.Blocks[i]
		var with string
		switch value := v.Bytes(b.Body); {
		case b.Kind == wire.KindText && string(value) == "null":
			with = `""`
		// Servers parse the arguments for the template, see vllm issue 19419.
		case b.Kind == wire.KindToolUse && isBlank(value):
			with = `"{}"`
		default:
			continue
		}
		cuts = append(cuts, wire.Cut{Start: b.Body.Start, End: b.Body.End, With: []byte(with)})
	}
	return cuts
}

// isBlank reports whether a JSON value is null or a short text of white space.
func isBlank(value []byte) bool {
	if len(value) == 0 || len(value) > len(`"\n\n\n"`) {
		return false
	}
	v := gjson.ParseBytes(value)
	return v.Type == gjson.Null || v.Type == gjson.String && strings.TrimSpace(v.Str) == ""
}

// withThinking appends the cuts for messages with calls but without thinking.
func (d *compat) withThinking(v *wire.View, cuts []wire.Cut) []wire.Cut {
	for i := range v.Messages {
		m := &v.Messages[i]
		calls := false
		for j := m.First; j < m.End; j++ {
			if isReasoning(&v.Blocks[j]) {
				calls = false
				break
			}
			calls = calls || v.Blocks[j].Kind == wire.KindToolUse
		}
		// Some models refuse calls without thinking, but take an empty one.
		if calls {
			at := m.Span.Start + 1
			cuts = append(cuts, wire.Cut{Start: at, End: at, With: []byte(`"` + d.reasoning + `":"",`)})
		}
	}
	return cuts
}

// names renames the thinking of earlier turns and removes unsupported markers.
func (d *compat) names(format wire.Format, body []byte, view *wire.View) (out []byte, changed bool) {
	other, thinking := "", false
	if format.Traits().ServersVary {
		switch d.reasoning {
		case reasoningContent:
			other = reasoningAlias
		case reasoningAlias:
			other = reasoningContent
		}
		// Without a view, a search in the bytes spares most bodies the parsing.
		thinking = other != "" && (view != nil || bytes.Contains(body, []byte(`"`+other+`"`))) || d.reasoning == reasoningNone
	}
	calls := format.Traits().ServersVary && (view != nil || bytes.Contains(body, []byte(`"tool_calls"`)))
	markers := !d.cacheControl && (view != nil || bytes.Contains(body, []byte(`"cache_control"`)))
	templates := d.chat && format.Traits().ServersVary &&
		(calls || bytes.Contains(body, []byte("null")) || bytes.Contains(body, []byte("developer")))
	thinks := d.thinks && calls
	if !thinking && !markers && !templates && !thinks {
		return nil, false
	}
	if view == nil {
		var err error
		if view, err = wire.Parse(format, body, nil); err != nil {
			return nil, false
		}
	}
	var cuts []wire.Cut
	if templates {
		cuts = forTemplates(view)
	}
	if thinks {
		cuts = d.withThinking(view, cuts)
	}
	for i := range view.Blocks {
		b := &view.Blocks[i]
		if thinking && isReasoning(b) {
			cuts = append(cuts, d.reasoningCuts(view, i, other)...)
		}
		if markers && !b.Marker.Empty() {
			if c, ok := view.Unmark(i); ok {
				cuts = append(cuts, c)
			}
		}
	}
	if len(cuts) == 0 {
		return nil, false
	}
	out, err := wire.Replace(body, cuts)
	return out, err == nil
}

// ToolChanges returns next behind a layer that replaces blocks which add or remove tools in
// messages by texts. Local servers with the Messages API refuse a whole request for such a block
// (omlx issue 3754). Translated requests contain no such blocks at this point.
func (p *Profile) ToolChanges(next caddyhttp.Handler, client wire.Format) caddyhttp.Handler {
	codec, ok := client.Codec().(wire.ToolChanger)
	if !ok || !p.Local() || p.Stateful() || p.Target(client) != client {
		return next
	}
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpx.Outgoing(r, p.MaxBody)
		if err != nil {
			return next.ServeHTTP(w, r) //nolint:nilerr // a body that is not understood passes untouched
		}
		out := body
		httpx.Guard(p.Log, "telling of tools that come and go", func() { out = codec.ToolChangesAsText(body) })
		if httpx.Same(out, body) {
			return next.ServeHTTP(w, r)
		}
		defer httpx.SwapBody(r, body, out)()
		return next.ServeHTTP(w, r)
	})
}
