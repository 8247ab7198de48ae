// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package wire

// What this package cannot make out with certainty (a member that stands twice, a
// role or a form that it does not know, a key with escapes) costs a conversation
// no more than that one piece of it: the piece is a block that nobody looks into
// and nothing is done to, and counts by its bytes. Only what decides about the
// whole request, see [Parse], makes all of it unreadable.

// opaque takes the value at b[at] for one closed block, in the place of what was
// read of it, and returns the block and the index behind it, or -1 if it is no
// well-formed value.
func (p *parser) opaque(at int, b Block) (Block, int) {
	end := skipValue(p.b, at)
	if end < 0 {
		return b, p.fail(ErrSyntax)
	}
	p.err = nil
	b.Span = Span{int32(at), int32(end)}
	p.hasher.begin(b.Section, b.Role, b.Kind)
	p.hasher.add(b.Span.Of(p.b))
	b.Hash = p.hasher.end()
	return b, end
}

// shut puts a closed block in the place of blocks n and further, which were read
// of the value at b[at].
func (p *parser) shut(at, n int, section Section, role Role, message int32) int {
	b, end := p.opaque(at, Block{Kind: KindOther, Section: section, Role: role, Message: message})
	if end > 0 {
		p.blocks = append(p.blocks[:n], b)
	}
	return end
}

// shutMessage makes the message that began with block n and could not be read one
// closed block. Whose it is, it says in one plain member, or nobody knows.
func (p *parser) shutMessage(at, n int) int {
	if p.b[at] != '{' {
		return p.fail(ErrShape)
	}
	index := len(p.v.Messages) - 1
	p.v.Messages[index] = Message{First: int32(n), Role: p.roleOf(at)}
	return p.shut(at, n, SectionMessages, p.v.Messages[index].Role, int32(index))
}

// roleOf returns what the object at b[at] says of whose it is.
func (p *parser) roleOf(at int) (role Role) {
	seen := false
	for m := walk(p.b, at); m.next(); {
		isRole := string(m.key) == "role"
		value := m.skip()
		switch {
		case m.bad || isRole && seen:
			return RoleNone
		case isRole:
			role, seen = roles[string(value.Of(p.b))], true
		}
	}
	return role
}

// roles are those of all formats, as they stand in JSON.
var roles = map[string]Role{
	`"user"`: RoleUser, `"assistant"`: RoleAssistant, `"model"`: RoleAssistant,
	`"system"`: RoleSystem, `"developer"`: RoleSystem, `"tool"`: RoleTool, `"function"`: RoleTool,
}
