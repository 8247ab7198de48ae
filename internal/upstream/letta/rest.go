// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package letta

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/tenant"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/upstream"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// rest is a layer before a server with the REST API, which makes it one that stores
// responses and goes on from them, as the App Server does: a conversation has an agent of
// its own, whose last answer is the one that can be gone on from. What goes on from
// another, or from one of an agent that is not known, is told that it does not exist, and
// comes again with all of it.
type rest struct {
	*Site
	next caddyhttp.Handler
	of   conversation
	name string // the client's own for its session, "" for none
}

// ServeHTTP implements caddyhttp.Handler.
func (t *rest) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	p, ok := httpx.Whole(r)
	if !ok {
		return t.next.ServeHTTP(w, r)
	}
	a, err := t.agents.take(r.Context(), t.of)
	if err != nil {
		return err
	}
	defer t.agents.give(t.of, a)
	in := gjson.ParseBytes(p.Data)
	v := &visit{
		rest: t, agent: a, r: r, base: strings.TrimSuffix(r.URL.Path, "responses") + "agents/",
		model: in.Get("model").Str, system: strings.ReplaceAll(in.Get("instructions").Str, "\x00", ""),
		content: in.Get("input.0.content"),
		from:    in.Get("previous_response_id").Str, stream: in.Get("stream").Bool(),
	}
	if err = v.ready(); err == nil {
		err = v.talk(w)
	}
	why, ok := err.(*refusal) //nolint:errorlint // it is never wrapped
	switch {
	case !ok:
		return err
	case why == gone:
		return v.missing(w)
	}
	return httpx.Fail(w, wire.OpenAIResponses, &why.Failure)
}

// missing says in the App Server's words that the answer that a request goes on from does
// not exist: the client gets to see none of them.
func (v *visit) missing(w http.ResponseWriter) error {
	return httpx.Respond(w, http.StatusNotFound, "application/json", mustJSON(object{"error": object{
		"message": "The response '" + v.from + "' does not exist or is no longer stored.", "type": "invalid_request_error",
		"param": nil, "code": unknownResponse,
	}}))
}

// visit is one request to an agent whose turn it has.
type visit struct {
	*rest
	*agent
	r       *http.Request
	base    string // the path of all agents
	model   string
	system  string       // the prompt
	content gjson.Result // of the one message
	from    string       // the answer that it goes on from, "" for all of it
	stream  bool
}

// ready has the agent hold what the message goes on from, and know the system prompt.
func (v *visit) ready() error {
	if v.from != "" {
		if v.id == "" || v.from != v.last {
			return gone
		}
		return v.instruct()
	}
	if v.id == "" {
		if err := v.find(); err != nil {
			return err
		}
	}
	if v.id != "" && v.dirty {
		if err := v.empty(); err != nil {
			return err
		}
	}
	if v.id != "" {
		if err := v.instruct(); err != gone { //nolint:errorlint,err113 // the very value
			return err
		}
	}
	return v.create()
}

// tag is how the server knows whose agent an agent is, over restarts of everybody: a
// keyed hash.
func (v *visit) tag() string {
	mac := hmac.New(sha256.New, v.names.Secret[:])
	whose := v.names.Of(v.r)
	mac.Write(whose[:])
	mac.Write(tenant.AppendField(nil, v.name))
	mac.Write(v.of.begins[:])
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// find looks for the conversation's agent at the server. Only who names a session finds
// one: others may begin alike.
func (v *visit) find() error {
	if v.name == "" {
		return nil
	}
	tag := v.tag()
	got, err := v.call(http.MethodGet, "", "limit=10&tags="+url.QueryEscape(tag), nil)
	if err != nil || got.status/100 != 2 {
		return err
	}
	for _, one := range gjson.ParseBytes(got.body).Array() {
		if id := one.Get("id").Str; one.Get("metadata.session").Str != tag || !isID(id) || !v.agents.claim(v.agent, id) {
			continue
		}
		v.dirty, v.preface, v.last = true, false, ""
		befallen.WithLabelValues(found).Inc()
		has, err := v.call(http.MethodGet, v.id+"/core-memory/blocks/"+v.label(), "", nil)
		if err != nil {
			return err
		}
		if v.preface = has.status == http.StatusNotFound; has.status/100 == 2 {
			v.prompt = digest(gjson.GetBytes(has.body, "value").Str)
		}
		break
	}
	return nil
}

// isID reports whether a text may stand in a path.
func isID(id string) bool {
	return id != "" && len(id) <= 128 && strings.IndexFunc(id, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) < 0
}

// empty has the agent forget what was said. One that cannot is left.
func (v *visit) empty() error {
	got, err := v.call(http.MethodPatch, v.id+"/reset-messages", "", object{"add_default_initial_messages": false})
	switch {
	case err != nil:
		return err
	case got.status/100 == 2:
		v.dirty, v.last = false, ""
		if v.preface {
			v.prompt = wire.Hash{}
		}
		befallen.WithLabelValues(emptied).Inc()
	default:
		v.forget()
	}
	return nil
}

// forget leaves an agent.
func (v *visit) forget() {
	v.id, v.last, v.prompt = "", "", wire.Hash{}
	befallen.WithLabelValues(forgotten).Inc()
}

// create makes an agent. Its system prompt is in a memory block, if the server takes one.
func (v *visit) create() error {
	tag := v.tag()
	body := object{
		"name": "llm_cache " + tag[:12], "model": v.model, "tags": []string{"llm_cache", tag},
		"metadata":                 object{"session": tag},
		"initial_message_sequence": []any{}, "memory_blocks": []any{v.block(true)},
	}
	if e := v.options.Embedding; e != "" {
		body["embedding"] = e
	}
	if len(v.options.Tools) > 0 {
		body["tools"] = v.options.Tools
	}
	got, err := v.call(http.MethodPost, "", "", body)
	if err != nil {
		return err
	}
	v.preface, v.prompt = false, digest(v.system)
	if refusesBlocks(got.status) {
		delete(body, "memory_blocks")
		again, err := v.call(http.MethodPost, "", "", body)
		if err != nil {
			return err
		}
		if again.status/100 == 2 {
			got, v.preface, v.prompt = again, true, wire.Hash{}
			befallen.WithLabelValues(prefaced).Inc()
		}
	}
	id := gjson.GetBytes(got.body, "id").Str
	switch {
	case got.status/100 != 2:
		return got.refusal()
	case !isID(id):
		return &refusal{translate.Failure{Status: http.StatusBadGateway, Message: "the server has made no agent"}}
	}
	v.agents.name(v.agent, id)
	v.dirty, v.last = false, ""
	befallen.WithLabelValues(made).Inc()
	return nil
}

// refusesBlocks reports whether an answer may mean that there are no memory blocks.
func refusesBlocks(status int) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotImplemented,
	}, status)
}

// leastRoom is for how many characters a block has room at least.
const leastRoom = 20_000

// block is the memory block with the system prompt.
func (v *visit) block(whole bool) object {
	hash := digest(v.system)
	b := object{
		"value": v.system, "limit": max(leastRoom, 2*len(v.system)),
		"metadata": object{"session": v.of.session, "hash": hex.EncodeToString(hash[:])},
	}
	if whole {
		b["label"], b["read_only"], b["description"] = v.label(), true,
			"What the application that you talk with asks of you. Follow it."
	}
	return b
}

func (v *visit) label() string {
	if v.options.Block != "" {
		return v.options.Block
	}
	return upstream.DefaultAgentBlock
}

// instruct has the agent know the system prompt. A server makes the prompt of an agent
// anew when a block of it changes, and its model has to read all of it again: so only one
// that has changed is written, and only between two runs of the agent.
func (v *visit) instruct() error {
	want := digest(v.system)
	if v.preface || v.prompt == want {
		return nil
	}
	got, err := v.call(http.MethodPatch, v.id+"/core-memory/blocks/"+v.label(), "", v.block(false))
	switch {
	case err != nil:
		return err
	case got.status/100 == 2:
		v.prompt = want
		befallen.WithLabelValues(updated).Inc()
		return nil
	case !refusesBlocks(got.status):
		return got.refusal()
	}
	there, err := v.call(http.MethodGet, v.id, "", nil)
	switch {
	case err != nil:
		return err
	case there.status == http.StatusNotFound:
		v.forget()
		return gone
	}
	v.preface = true
	befallen.WithLabelValues(prefaced).Inc()
	return nil
}

// talk sends the message, and gives the client the agent's answer.
func (v *visit) talk(w http.ResponseWriter) error {
	told := digest(v.system)
	preface := ""
	if v.preface && v.prompt != told && v.system != "" {
		preface = "<system-reminder>\n" + v.system + "\n</system-reminder>\n\n"
	}
	content, err := userContent(preface, v.content)
	if err != nil {
		return err
	}
	body, path := object{"messages": []any{object{"role": "user", "content": content}}}, v.id+"/messages"
	if v.stream {
		path += "/stream"
		body["stream_tokens"] = true
	}
	q := v.request(v.r, http.MethodPost, path, "", body)
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	s := newSpoken(w, speaker{id: "resp_" + v.id + "_" + hex.EncodeToString(random[:]), model: v.model, at: v.now()})
	v.dirty, v.last = true, "" // until it has answered
	if err := v.next.ServeHTTP(s, q); err != nil {
		return err
	}
	if why := s.refusal(); why != nil {
		if why.Status == http.StatusNotFound {
			v.forget()
			if v.from != "" {
				return gone
			}
		}
		return why
	}
	if err := s.finish(); err != nil {
		return err
	}
	if s.ended {
		v.last, v.prompt = s.speaker.id, told
	}
	return nil
}

// userContent is what a message of the user says, in the API's words.
func userContent(preface string, content gjson.Result) (any, error) {
	text, plain := preface, true
	parts := []object{}
	if preface != "" {
		parts = append(parts, object{"type": "text", "text": preface})
	}
	for _, p := range content.Array() {
		if p.Get("type").Str != "input_image" {
			text += p.Get("text").Str
			parts = append(parts, object{"type": "text", "text": p.Get("text").Str})
			continue
		}
		plain = false
		at := p.Get("image_url").Str
		source := object{"type": "url", "url": at}
		if rest, ok := strings.CutPrefix(at, "data:"); ok {
			kind, data, _ := strings.Cut(rest, ";base64,")
			source = object{"type": "base64", "media_type": kind, "data": data}
		}
		if at == "" {
			return nil, &refusal{translate.Failure{
				Status: http.StatusBadRequest, Type: "invalid_request_error",
				Message: "input_image: an agent of Letta takes images by address or as data",
			}}
		}
		parts = append(parts, object{"type": "image", "source": source})
	}
	if plain { // as all servers read it
		return text, nil
	}
	return parts, nil
}

// digest tells system prompts apart.
func digest(text string) (h wire.Hash) {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(text, "\x00", "")))
	copy(h[:], sum[:])
	return h
}

// refusal is what the client is told in place of an answer.
type refusal struct{ translate.Failure }

func (r *refusal) Error() string { return strconv.Itoa(r.Status) + " " + r.Message }

// gone says that an agent does not hold what a request goes on from.
var gone = &refusal{translate.Failure{Status: http.StatusNotFound}}

// unknownResponse is the code of the error that says so.
const unknownResponse = "response_not_found"
