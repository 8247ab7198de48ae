// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package bedrock

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
)

func TestAddress(t *testing.T) {
	const profile = "arn:aws:bedrock:eu-central-1:123456789012:inference-profile/eu.anthropic.claude-opus-4-6-v1"
	for path, want := range map[string]struct {
		model        string
		streams, yes bool
	}{
		"/model/anthropic.claude-sonnet-4-5-20250929-v1:0/invoke": {"anthropic.claude-sonnet-4-5-20250929-v1:0", false, true},
		"/model/us.anthropic.claude-opus-4-6-v1/invoke-with-response-stream": {
			"us.anthropic.claude-opus-4-6-v1",
			true, true,
		},
		"/model/" + profile + "/invoke":                                             {profile, false, true},
		"/model/arn:aws:bedrock:us-east-1:1:application-inference-profile/x/invoke": {"arn:aws:bedrock:us-east-1:1:application-inference-profile/x", false, true},
		"/model/amazon.nova-pro-v1:0/invoke":                                        {},
		"/model/anthropic.claude-opus-4-6-v1/converse":                              {},
		"/model/anthropic.claude-opus-4-6-v1/count-tokens":                          {},
		"/anthropic.claude-opus-4-6-v1/invoke":                                      {},
		"/invoke":                                                                   {},
	} {
		base, model, streams, ok := Codec{}.Address(path)
		if ok != want.yes || model != want.model || ok && (streams != want.streams || base != "/model/") ||
			(Codec{}).Match(path) != want.yes {
			t.Errorf("%s: %q, %q, %t, %t", path, base, model, streams, ok)
		}
	}
}

// A chunk holds an event, and an exception has a name. An unreadable chunk becomes an event without
// data. The raw bytes of all of them are preserved.
func TestChunks(t *testing.T) {
	var c Chunks
	stream := c.Append(nil, "message_stop", []byte(`{"type":"message_stop"}`))
	stream = c.EventStream.Append(stream, "chunk",
		[]byte(`{ "p":"abc", "bytes" : "`+base64.StdEncoding.EncodeToString([]byte(`{"a":1}`))+`" }`))
	stream = c.EventStream.Append(stream, "chunk", []byte(`{"bytes":"%"}`))
	stream = c.AppendException(stream, "throttlingException", []byte(`{"message":"slow"}`))
	for _, size := range []int{1, 9, len(stream)} {
		f := c.Framer()
		var got []string
		var raw strings.Builder
		for piece := range slices.Chunk(stream, size) {
			f.Feed(piece, func(e framing.Event) {
				got = append(got, string(e.Name)+"|"+string(e.Data))
				raw.Write(e.Raw)
			})
		}
		if want := []string{
			`|{"type":"message_stop"}`, `|{"a":1}`, "|",
			`throttlingException|{"message":"slow"}`,
		}; !slices.Equal(got, want) || raw.String() != string(stream) {
			t.Errorf("in pieces of %d: %q", size, got)
		}
	}
}

func FuzzChunks(f *testing.F) {
	f.Add([]byte(`{"bytes":"e30="}`), []byte(`{"type":"ping"}`))
	f.Add([]byte(`{"bytes":"%%","p":"x"}`), []byte(``))
	f.Fuzz(func(t *testing.T, payload, event []byte) {
		var c Chunks
		stream := c.Append(c.EventStream.Append(nil, "chunk", payload), "", event)
		var events, raw string
		c.Framer().Feed(stream, func(e framing.Event) {
			events = string(e.Data)
			raw += string(e.Raw)
		})
		if events != string(event) || raw != string(stream) {
			t.Errorf("%q came of %q, %q of the stream", events, event, raw)
		}
	})
}
