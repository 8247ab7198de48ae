// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
)

// Names turns a table of what a format calls its top-level members, and what [Parse]
// does, into one that is looked up without allocating.
func Names(called map[string]string) map[string][]byte {
	names := make(map[string][]byte, len(called))
	for name, like := range called {
		names[name] = []byte(like)
	}
	return names
}

// cacheOptions reads what a request to OpenAI says of its cache.
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

// refers reports whether a member of a Responses request names what the provider
// is to put before the input.
func (p *Parser) refers(s rawjson.Span) bool {
	return p.traits.KeepsAnswers && !s.Empty() && !IsNull(p.Body, s)
}

// Held is a top-level member that refers to what only the provider's own API has: its name,
// empty for none.
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

// thread reads the member by which a conversation over the Messages API is kept
// at the provider, or goes on from an answer that is. A kind that is not known
// is taken for the latter: what the model will see may be elsewhere.
func (p *Parser) thread(s rawjson.Span) {
	if !p.traits.Threads || s.Empty() || IsNull(p.Body, s) {
		return
	}
	p.View.Conversation.Thread = s
	thread := gjson.ParseBytes(s.Of(p.Body))
	if thread.Get("type").Str != "create" {
		p.View.Conversation.Partial, p.View.Conversation.Continues = true, thread.Get("previous_message_id").Str
	}
}

// session finds the conversation id of Claude Code (a JSON object in a string
// in metadata.user_id, in older versions user_…_session_<id>) or of OpenAI.
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
	user := gjson.GetBytes(metadata.Of(p.Body), "user_id").String()
	if len(user) == 0 {
		return ""
	}
	if user[0] == '{' {
		return gjson.Get(user, "session_id").String()
	}
	const sep = "_session_"
	for i := len(user) - len(sep); i > 0; i-- {
		if user[i:i+len(sep)] == sep {
			return user[i+len(sep):]
		}
	}
	return ""
}

// ForcesCall reads the choice of a format in which it is a word, or an object of a
// type.
func ForcesCall(choice gjson.Result) bool {
	if choice.IsObject() {
		choice = choice.Get("type")
	}
	return choice.Str != "" && choice.Str != "auto" && choice.Str != "none"
}
