// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// IsProgram reports whether the member "caller" of a call, or of its result, names a
// program. The Messages API says {"type":"code_execution_20250825","tool_id":…}, the
// Responses API {"type":"program","caller_id":…}; for the model itself both say
// {"type":"direct"}, or nothing. A type that is not known yet counts as a program's:
// its results stay as they are.
func IsProgram(caller gjson.Result) bool {
	kind := caller
	if caller.IsObject() {
		kind = caller.Get("type")
	}
	return kind.Type == gjson.String && kind.Str != "" && kind.Str != "direct"
}

// programs are the calls of programs in the blocks that were read so far.
type programs struct {
	any  bool // whether there are any, here or in what was recalled
	read int  // so many blocks were searched for them
	ids  map[string]struct{}
}

// Program makes a call or a result a [KindProgram] where a program has called: by the
// block's own caller, or by the caller of the call that a result answers.
func (p *Parser) Program(b *Block, caller rawjson.Span) {
	if b.Kind != KindToolUse && b.Kind != KindToolResult {
		return
	}
	is := !caller.Empty() && IsProgram(gjson.ParseBytes(caller.Of(p.Body)))
	if !is && b.Kind == KindToolResult && p.programs.any {
		_, is = p.programCalls()[string(b.ID.Of(p.Body))]
	}
	if is {
		b.Kind, b.Body, p.programs.any = KindProgram, rawjson.Span{}, true
	}
}

// programCalls returns the ids of the programs' calls among the blocks so far.
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
