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

package pipeline

// refusal is what has become of an exchange because of an edit of ours.
type refusal struct {
	rejected bool // the upstream has refused it, and no other cause is known
	frozen   bool // the conversation is not edited anew
}

// Rejected notes that the upstream refused the request for an edit of ours. Body
// is then what to send in its place: the client's original, or, where earlier
// thinking has seen edits and is bound to them, the request with those alone.
// Unless it is refused as well, see [Exchange.Cleared], the conversation is frozen:
// not edited anew from here on.
func (x *Exchange) Rejected() {
	x.req.session.Lock()
	defer x.req.session.Unlock()
	x.refusal = refusal{rejected: true, frozen: true}
	x.req.keep(x.standing.match)
	x.req.marking.long, x.req.offer.tools = false, nil
	x.change.deep = true // what was estimated is not what was sent
	x.Prompt.again(x.req)
}

// Cleared notes, after Rejected, that the upstream refused what it got in the
// place of the request in such words, too: it was no edit of ours.
func (x *Exchange) Cleared() { x.refusal = refusal{} }

// freeze has the conversation left alone, once it is clear that an edit of ours
// was refused. The session is locked.
func (x *Exchange) freeze() {
	l := x.standing.match.Lineage
	if l == nil || !x.refusal.rejected {
		return
	}
	x.req.session.Refused(x.req.View)
	l.Frozen = true
	if !x.req.rules.BindsThinking {
		for i := range l.States {
			l.States[i].Edit, l.States[i].Inserted = nil, nil
		}
		l.Expand = false
	}
}

// Abandon notes that the answer failed or was cut off. Nothing is remembered,
// except that a conversation in which an edit was refused is left alone, and that a call
// held a mark.
func (x *Exchange) Abandon() {
	if !x.refusal.rejected && !x.Interceptor.copied {
		return
	}
	x.req.session.Lock()
	defer x.req.session.Unlock()
	if l := x.standing.match.Lineage; l != nil {
		l.Copied = x.Interceptor.copied
		x.freeze()
		return
	}
	l := x.req.session.Commit(x.standing.match, x.req.View, x.req.States)
	l.Frozen, l.Copied = x.refusal.rejected, x.Interceptor.copied
	l.Created, l.Started, l.Model = x.start, x.start, x.req.View.Model
}
