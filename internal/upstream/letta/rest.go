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

// rest makes a server with the REST API store responses, as the App Server does. Each conversation has an agent,
// and only the agent's last answer can be continued.
type rest struct {
	*Site
	next caddyhttp.Handler
	of   conversation
	name string // the client's own name of its session, "" for none
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
	in := gjson.ParseBytes(p.Bytes())
	v := &visit{
		rest: t, agent: a, r: r, base: strings.TrimSuffix(r.URL.Path, "responses") + "agents/",
		model: in.Get("model").Str, system: strings.ReplaceAll(in.Get("instructions").Str, "\x00", ""),
		content: in.Get("input.0.content"),
		from:    in.Get("previous_response_id").Str, stream: in.Get("stream").Bool(),
	}
	// A request that continues another answer gets the App Server's error, and comes again with the whole
	// conversation.
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

// missing answers with the App Server's error for an unknown answer.
func (v *visit) missing(w http.ResponseWriter) error {
	return httpx.Respond(w, http.StatusNotFound, "application/json", mustJSON(object{"error": object{
		"message": "The response '" + v.from + "' does not exist or is no longer stored.", "type": "invalid_request_error",
		"param": nil, "code": unknownResponse,
	}}))
}

// visit is one request in its agent's turn.
type visit struct {
	*rest
	*agent
	r       *http.Request
	base    string // the path of all agents
	model   string
	system  string       // the prompt
	content gjson.Result // of the one message
	from    string       // answer to continue, "" for the whole conversation
	stream  bool
}

// ready prepares the agent's history and system prompt for the message.
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

// tag is the agent's name at the server.
func (v *visit) tag() string {
	// Keyed, so that the server learns no credential, and the same after a restart of either side.
	mac := hmac.New(sha256.New, v.names.Secret[:])
	owner := v.names.Of(v.r)
	mac.Write(owner[:])
	mac.Write(tenant.AppendField(nil, v.name))
	mac.Write(v.of.begins[:])
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// find looks for the conversation's agent at the server.
func (v *visit) find() error {
	// Without a session's name, other conversations may begin alike.
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
		// Its history is unknown after a restart.
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

func isID(id string) bool {
	return id != "" && len(id) <= 128 && strings.IndexFunc(id, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) < 0
}

// empty clears the agent's history.
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
		// An agent that cannot be cleared is replaced by a new one.
		v.forget()
	}
	return nil
}

func (v *visit) forget() {
	v.id, v.last, v.prompt = "", "", wire.Hash{}
	befallen.WithLabelValues(forgotten).Inc()
}

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
	// Without memory blocks the system prompt goes with a message.
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

func refusesBlocks(status int) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotImplemented,
	}, status)
}

// minRoom is the smallest size of a memory block, in characters: room for a longer prompt later.
const minRoom = 20_000

func (v *visit) block(whole bool) object {
	hash := digest(v.system)
	b := object{
		"value": v.system, "limit": max(minRoom, 2*len(v.system)),
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

// instruct updates the agent's system prompt.
func (v *visit) instruct() error {
	want := digest(v.system)
	// A changed block makes the model read the whole prompt again, so an equal one is not written.
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
	// A 404 may mean the agent or the block.
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

func (v *visit) talk(w http.ResponseWriter) error {
	systemDigest := digest(v.system)
	preface := ""
	if v.preface && v.prompt != systemDigest && v.system != "" {
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
	// A cut answer leaves an unknown history behind.
	v.dirty, v.last = true, ""
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
		v.last, v.prompt = s.speaker.id, systemDigest
	}
	return nil
}

// userContent converts a user message to the API's form.
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

func digest(text string) (h wire.Hash) {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(text, "\x00", "")))
	copy(h[:], sum[:])
	return h
}

// refusal is an error for the client.
type refusal struct{ translate.Failure }

func (r *refusal) Error() string { return strconv.Itoa(r.Status) + " " + r.Message }

// gone reports that an agent's history does not end with the continued answer.
var gone = &refusal{translate.Failure{Status: http.StatusNotFound}}

// unknownResponse is the App Server's code for it.
const unknownResponse = "response_not_found"
