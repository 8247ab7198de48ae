// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"errors"
	"testing"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/vertex"
)

// The address of a request names the price of its place, at Vertex AI only.
func TestAddressedPlace(t *testing.T) {
	const project = "/v1/projects/p/locations/"
	for _, c := range []struct {
		format wire.Format
		path   string
		level  wire.Service
		google bool
	}{
		{wire.Gemini, "/v1beta/models/gemini-3.1-pro:generateContent", 0, false},
		{wire.Gemini, project + "europe-west4/publishers/google/models/gemini-3.1-pro:generateContent", 0, true},
		{wire.Gemini, project + "europe-west4/endpoints/7:generateContent", wire.Regional, false},
		{vertex.Format, project + "europe-west4/publishers/anthropic/models/claude-sonnet-5:rawPredict", wire.Regional, false},
		{vertex.Format, project + "global/publishers/anthropic/models/claude-sonnet-5:rawPredict", 0, false},
		{wire.Anthropic, project + "europe-west4/v1/messages", 0, false},
	} {
		v := wire.View{Format: c.format}
		if v.Address(c.path, ""); v.Reply.Service != c.level || v.Vertex != c.google {
			t.Errorf("%s %s: service %q, Google's model %t", c.format, c.path, v.Reply.Service, v.Vertex)
		}
	}
}

// A thread is a member of the Messages API alone.
func TestThreadMember(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		format    wire.Format
		body      string
		thread    string
		continues string
		partial   bool
		err       error
	}{
		{wire.Anthropic, `{` + messages + `,"thread":{"type":"create"}}`, `{"type":"create"}`, "", false, nil},
		{
			wire.Anthropic, `{"thread":{"type":"continue","previous_message_id":"m1"},` + messages + `}`,
			`{"type":"continue","previous_message_id":"m1"}`, "m1", true, nil,
		},
		{wire.Anthropic, `{` + messages + `,"thread":null}`, "", "", false, nil},
		{wire.Anthropic, `{"thread":{},` + messages + `,"thread":{}}`, "", "", false, wire.ErrDuplicate},
		{vertex.Format, `{` + messages + `,"thread":{"type":"continue"}}`, "", "", false, nil},
		{wire.OpenAIChat, `{` + messages + `,"thread":{"type":"continue"}}`, "", "", false, nil},
	} {
		v, err := wire.Parse(c.format, []byte(c.body), nil)
		if !errors.Is(err, c.err) {
			t.Errorf("%s %s: %v, want %v", c.format, c.body, err, c.err)
		}
		if err != nil {
			continue
		}
		if got := v.Conversation; v.Text(got.Thread) != c.thread || got.Continues != c.continues || got.Partial != c.partial {
			t.Errorf("%s %s: %+v", c.format, c.body, got)
		}
	}
}
