// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package websocket

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// longestLane bounds the name of a lane, in bytes: the API's own bound.
const longestLane = 256

// create is one response.create of a client.
type create struct {
	message  []byte
	lane     string // "" for the unnamed lane
	previous string // id of the answer to continue
	stored   bool   // the provider stores the answer, which is the default
	warms    bool   // no answer is wanted: the input is for the next request
	room     Room
}

// readCreate parses a client's event. The failure is for the client.
func readCreate(message []byte) (c *create, f *failure) {
	c = &create{message: message, stored: true}
	var kind string
	m := rawjson.Walk(message, 0)
	for m.Next() {
		name := string(m.Key)
		value := m.Skip().Of(message)
		switch name {
		case "type":
			kind = gjson.ParseBytes(value).Str
		case "stream_id":
			if string(value) == "null" {
				continue
			}
			if c.lane = gjson.ParseBytes(value).Str; !isLane(c.lane) {
				return nil, invalid("invalid_stream_id",
					"The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain letters, "+
						"numbers, underscores, hyphens, and periods.", "stream_id")
			}
		case "previous_response_id":
			c.previous = gjson.ParseBytes(value).Str
		case "store":
			c.stored = string(value) != "false"
		case "generate":
			c.warms = string(value) == "false"
		}
	}
	if m.Bad {
		return nil, invalid("invalid_json", "The message is not a JSON object.", "")
	}
	if kind != "response.create" {
		f := invalid("unknown_event_type", "Unsupported event type "+strconv.Quote(kind)+
			": only response.create is understood here.", "type")
		f.lane = c.lane
		return nil, f
	}
	return c, nil
}

func isLane(s string) bool {
	if s == "" || len(s) > longestLane {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}

// whole returns the body of the equivalent POST, with the earlier items before its input. If known
// is false, the body keeps its reference to the previous response instead.
func (c *create) whole(before []byte, known bool) (body []byte, err error) {
	members := []wire.Member{
		{Name: "type"},
		{Name: "stream_id"},
		{Name: "generate"},
		{Name: "background"},
		{Name: "stream", Value: []byte("true")},
	}
	if known {
		input := items(gjson.GetBytes(c.message, "input"))
		all := make([]byte, 0, len(before)+len(input)+3)
		all = append(append(all, '['), before...)
		if len(before) > 0 && len(input) > 0 {
			all = append(all, ',')
		}
		all = append(append(all, input...), ']')
		members = append(members, wire.Member{Name: "previous_response_id"}, wire.Member{Name: "input", Value: all})
	}
	return wire.Patch(c.message, members...)
}

// items returns the elements of an input, separated by commas. A text becomes one message.
func items(input gjson.Result) []byte {
	if input.Type == gjson.String {
		return []byte(`{"role":"user","content":` + input.Raw + `}`)
	}
	if !input.IsArray() {
		return nil
	}
	raw := bytes.TrimSpace([]byte(input.Raw))
	return bytes.TrimSpace(raw[1 : len(raw)-1])
}

// after returns the items before the input of a request that continues an answer: the answer's
// input and output.
func after(body []byte, output [][]byte) []byte {
	said := items(gjson.GetBytes(body, "input"))
	n := len(said)
	for _, o := range output {
		n += 1 + len(o)
	}
	all := append(make([]byte, 0, n), said...)
	for _, o := range output {
		if len(all) > 0 {
			all = append(all, ',')
		}
		all = append(all, o...)
	}
	return all
}

// unkept returns an answer's output in a form that the next request can repeat to a provider that
// stores nothing.
func unkept(output [][]byte) (out [][]byte) {
	// Reasoning without its encrypted content is useless in a request, and providers refuse it.
	bare := func(item []byte) bool {
		return gjson.GetBytes(item, "type").Str == "reasoning" && gjson.GetBytes(item, "encrypted_content").Str == ""
	}
	if !slices.ContainsFunc(output, bare) {
		return output
	}
	for _, item := range output {
		if bare(item) {
			continue
		}
		// Without the reasoning item, the provider would refuse the ids of its companions.
		if nameless, err := wire.Patch(item, wire.Member{Name: "id"}); err == nil {
			item = nameless
		}
		out = append(out, item)
	}
	return out
}

// post returns the POST for a request on a connection.
func post(r *http.Request, body []byte) *http.Request {
	r = r.Clone(r.Context())
	r.Method = http.MethodPost
	for name := range r.Header {
		if len(name) > 14 && name[:14] == "Sec-Websocket-" {
			delete(r.Header, name)
		}
	}
	for _, name := range [...]string{"Connection", "Upgrade", "Te", "Origin"} {
		delete(r.Header, name)
	}
	withoutBeta(r.Header)
	r.Header["Content-Type"] = []string{"application/json"}
	r.Header["Accept"] = []string{"text/event-stream"}
	r.Header["Accept-Encoding"] = []string{"identity"} // the answer's events must be readable
	httpx.SetLength(r, len(body))
	r.GetBody = nil
	r.Body = &onlyBody{Reader: *bytes.NewReader(body)}
	return r
}

// onlyBody is a body that releases its memory when closed.
type onlyBody struct{ bytes.Reader }

// Close implements io.Closer.
func (b *onlyBody) Close() error {
	b.Reset(nil)
	return nil
}

// newID returns a new id for an answer of the module's own.
func newID() string { return "resp_" + strings.ToLower(rand.Text()) }
