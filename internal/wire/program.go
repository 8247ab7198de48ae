// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// IsProgram reports whether "caller", a member of a call or result, is a program. The Messages API
// has {"type":"code_execution_20250825","tool_id":…}, the Responses API
// {"type":"program","caller_id":…}. For a direct call both have {"type":"direct"}, or no caller.
func IsProgram(caller gjson.Result) bool {
	kind := caller
	if caller.IsObject() {
		kind = caller.Get("type")
	}
	// Unknown types count as programs, so that their results stay unedited.
	return kind.Type == gjson.String && kind.Str != "" && kind.Str != "direct"
}

// programs tracks the calls of programs among the blocks read so far.
type programs struct {
	any  bool // the blocks, or the recalled conversation, have any
	read int  // number of blocks searched
	ids  map[string]struct{}
}

// Program turns a call or result into a [KindProgram] if a program made the call. The caller is in
// the block itself, or in the call that a result belongs to.
func (p *Parser) Program(b *Block, caller rawjson.Span) {
	if b.Kind != KindToolUse && b.Kind != KindToolResult {
		return
	}
	is := !caller.Empty() && IsProgram(gjson.ParseBytes(caller.Of(p.Body)))
	// A result without a caller has the caller of its call.
	if !is && b.Kind == KindToolResult && p.programs.any {
		_, is = p.programCalls()[string(b.ID.Of(p.Body))]
	}
	if is {
		b.Kind, b.Body, p.programs.any = KindProgram, rawjson.Span{}, true
	}
}

// programCalls returns the call ids of programs among the blocks so far.
func (p *Parser) programCalls() map[string]struct{} {
	q := &p.programs
	if q.ids == nil {
		q.ids = make(map[string]struct{})
	}
	for q.read = min(q.read, len(p.Blocks)); q.read < len(p.Blocks); q.read++ {
		if b := &p.Blocks[q.read]; b.Kind == KindProgram && !b.ID.Empty() {
			q.ids[string(b.ID.Of(p.Body))] = struct{}{}
		}
	}
	return q.ids
}
