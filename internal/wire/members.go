// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Names turns a table from a format's top-level member names to those of [Parse] into a table for
// lookups without allocation.
func Names(called map[string]string) map[string][]byte {
	names := make(map[string][]byte, len(called))
	for name, like := range called {
		names[name] = []byte(like)
	}
	return names
}

// cacheOptions reads OpenAI's prompt_cache_options.
func (p *Parser) cacheOptions(s rawjson.Span) {
	if s.Empty() || p.Body[s.Start] != '{' {
		return
	}
	options := gjson.ParseBytes(s.Of(p.Body))
	if ttl := options.Get("ttl"); ttl.Type == gjson.String {
		p.View.Caching.Retention = reuse.Intern([]byte(ttl.Str))
	}
	p.View.Caching.Prewarms = p.View.Caching.Prewarms || options.Get("prewarm").Type == gjson.True
}

// refers reports whether a member of a Responses request refers to stored input.
func (p *Parser) refers(s rawjson.Span) bool {
	return p.traits.KeepsAnswers && !s.Empty() && !IsNull(p.Body, s)
}

// Held is a top-level member that refers to a resource of the provider's own API. String returns
// its name, "" for none.
type Held uint8

const (
	heldCompaction Held = 1 + iota
	heldContainer
	heldConversation
)

// String returns the member's name.
func (h Held) String() string { return [...]string{"", "compaction", "container", "conversation"}[h] }

func (p *Parser) holds(h Held, s rawjson.Span) {
	if !s.Empty() && !IsNull(p.Body, s) {
		p.View.Conversation.Held = h
	}
}

// thread reads the thread of a Messages request. A thread is created, or continues from a stored
// answer.
func (p *Parser) thread(s rawjson.Span) {
	if !p.traits.Threads || s.Empty() || IsNull(p.Body, s) {
		return
	}
	p.View.Conversation.Thread = s
	thread := gjson.ParseBytes(s.Of(p.Body))
	// An unknown type counts as a continuation, because part of the prompt may be stored at the
	// provider.
	if thread.Get("type").Str != "create" {
		p.View.Conversation.Partial, p.View.Conversation.Continues = true, thread.Get("previous_message_id").Str
	}
}

// session returns the conversation id of OpenAI or of Claude Code.
func (p *Parser) session(metadata, cacheKey, conversation rawjson.Span) string {
	if !cacheKey.Empty() {
		if key := p.Text(cacheKey); key != "" {
			return key
		}
	}
	if p.refers(conversation) {
		if p.Body[conversation.Start] == '{' {
			return gjson.GetBytes(conversation.Of(p.Body), "id").String()
		}
		return p.Text(conversation)
	}
	if metadata.Empty() || p.Body[metadata.Start] != '{' {
		return ""
	}
	// Claude Code has its id in metadata.user_id.
	user := gjson.GetBytes(metadata.Of(p.Body), "user_id").String()
	if len(user) == 0 {
		return ""
	}
	// A JSON object in the string.
	if user[0] == '{' {
		return gjson.Get(user, "session_id").String()
	}
	// Older versions: user_…_session_<id>.
	const sep = "_session_"
	for i := len(user) - len(sep); i > 0; i-- {
		if user[i:i+len(sep)] == sep {
			return user[i+len(sep):]
		}
	}
	return ""
}

// ForcesCall implements [Codec.ForcesCall] for formats with a word as tool choice, or an object
// with a type.
func ForcesCall(choice gjson.Result) bool {
	if choice.IsObject() {
		choice = choice.Get("type")
	}
	return choice.Str != "" && choice.Str != "auto" && choice.Str != "none"
}
