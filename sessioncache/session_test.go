// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

func open(t testing.TB, o Options) *Store {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func view(t testing.TB, messages string, recall func(wire.Hash) *wire.Known) *wire.View {
	t.Helper()
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages+`]}`), recall)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// commit sends a request through a session, as the pipeline does.
func commit(s *Session, v *wire.View) *Conversation {
	s.Lock()
	defer s.Unlock()
	m := s.Match(v)
	states := make([]BlockState, len(v.MessageBlocks()))
	if m.Conversation != nil {
		copy(states, m.Conversation.States[:m.Common])
	}
	l := s.Commit(m, v, states)
	l.Requests++
	return l
}

// The states of a request are recycled once another request has replaced them, but not before its
// committer has left.
func TestOnlyWhatWasLeftIsRecycled(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		m := open(t, Options{})
		s := m.Acquire(t.Context(), Key{ID: "s"})
		first := view(t, user1, nil)
		l := commit(s, first)
		if leaves {
			s.Lock()
			s.Leave(l, first)
			s.Unlock()
		}
		if next := commit(s, view(t, user1+answer1+user2, nil)); next != l {
			t.Fatal("the conversation does not go on")
		}
		if recycled := len(first.Known().Chain()) == 0; recycled != leaves {
			t.Errorf("left: %t, recycled: %t", leaves, recycled)
		}
		m.Release(s)
	}
}

const (
	user1   = `{"role":"user","content":"one"}`
	answer1 = `,{"role":"assistant","content":"first"}`
	user2   = `,{"role":"user","content":"two"}`
	answer2 = `,{"role":"assistant","content":"second"}`
	other2  = `,{"role":"user","content":"another way"}`
)

func TestConversations(t *testing.T) {
	m := open(t, Options{})
	s := m.Acquire(t.Context(), Key{ID: "s"})
	defer m.Release(s)
	main := commit(s, view(t, user1, nil))
	if l := commit(s, view(t, user1+answer1+user2, nil)); l != main {
		t.Error("a continuation began a new conversation")
	}
	if l := commit(s, view(t, user1+answer1+user2, nil)); l != main {
		t.Error("a retry began a new conversation")
	}
	if l := commit(s, view(t, user1+answer1+other2, nil)); l != main || l.Len() != 3 {
		t.Error("a last message written anew began a new conversation")
	}
	commit(s, view(t, user1+answer1+user2+answer2+user2, nil))
	fork := commit(s, view(t, user1+answer1+other2, nil))
	if fork == main {
		t.Error("a rewind took the place of what it left out")
	}
	side := commit(s, view(t, `{"role":"user","content":"title?"}`, nil))
	if side == main || side == fork || len(s.conversations) != 3 || s.conversations[0] != side {
		t.Error("a side request has no conversation of its own")
	}
	s.Lock()
	defer s.Unlock()
	if got := s.Match(view(t, user1+answer1+user2+answer2+user2+answer1+user2, nil)); got.Conversation != main ||
		got.Common != 5 {
		t.Errorf("matched %d blocks", got.Common)
	}
}

// rewound returns a session with a conversation and a side request that begins like it.
func rewound(t *testing.T) (s *Session, main, side *Conversation) {
	t.Helper()
	s = open(t, Options{}).Acquire(t.Context(), Key{ID: "s"})
	commit(s, view(t, user1, nil))
	commit(s, view(t, user1+answer1+user2, nil))
	main = commit(s, view(t, user1+answer1+user2+answer2+user2, nil))
	side = commit(s, view(t, user1+`,{"role":"user","content":"title?"}`, nil))
	if main == side || len(s.conversations) != 2 {
		t.Fatal("the side request has no conversation of its own")
	}
	return s, main, side
}

// A rewind is known by all that it has in common with its conversation, although a side
// request that begins alike is the one that goes.
func TestRewindBehindASideRequest(t *testing.T) {
	s, main, side := rewound(t)
	main.Expand, side.Refused, side.Settled = true, wire.AllEdits, 2
	side.Ends.Mark(2, time.Now())
	side.Warmed = time.Now()
	s.Lock()
	m := s.Match(view(t, user1+answer1+other2, nil))
	s.Unlock()
	if m.Conversation != main || m.Common != 2 {
		t.Errorf("conversation %d has %d blocks in common", m.Conversation.ID(), m.Common)
	}
	l := commit(s, view(t, user1+answer1+other2, nil))
	if l != side || len(s.conversations) != 2 || l.Len() != 3 || main.Len() != 5 {
		t.Errorf("of %d conversations the rewind is %d, with %d blocks, and the conversation has %d", len(s.conversations),
			l.ID(), l.Len(), main.Len())
	}
	if !l.Expand || l.Refused != 0 || l.Settled != 0 || len(l.Ends) != 0 || !l.Warmed.IsZero() {
		t.Error("what held for the side request holds for the rewind")
	}
	if next := commit(s, view(t, user1+answer1+other2+answer1+user2, nil)); next != l {
		t.Error("the rewind does not go on")
	}
	if next := commit(s, view(t, user1+answer1+user2+answer2+user2+answer1+user2, nil)); next != main {
		t.Error("the conversation does not go on where it was left")
	}
}

// A claim has the number that the request gets at its commit.
func TestClaimsTakeTheSamePlace(t *testing.T) {
	s, main, side := rewound(t)
	main.Expand = true
	v := view(t, user1+answer1+other2, nil)
	claimed := func(m Match) *Conversation {
		return s.claim(m, v, make([]BlockState, 3), func(*Conversation) {})
	}
	s.Lock()
	m := s.Match(v)
	if l := claimed(m); l.id != side.id || !l.Expand || side.Expand {
		t.Errorf("conversation %d is claimed", l.id)
	}
	s.Unlock()
	commit(s, view(t, user1+answer2+user2, nil)) // the side request's place is taken meanwhile
	s.Lock()
	defer s.Unlock()
	claim := claimed(m)
	if l := s.Commit(m, v, make([]BlockState, 3)); l == main || l == side || l.id != claim.id ||
		len(s.conversations) != 3 {
		t.Errorf("of %d conversations %d is claimed, and %d committed", len(s.conversations), claim.id, l.id)
	}
}

// A request without the call after an announcement shares nothing of that message with the
// conversation in which the announcement was removed: the message would be empty.
func TestNoMessageIsLeftEmpty(t *testing.T) {
	const (
		thought = `{"type":"thinking","thinking":"Hm.","signature":"s"},`
		says    = `{"type":"text","text":"Let me see."}`
		calls   = `,{"type":"tool_use","id":"a","name":"Read","input":{}}`
		result  = `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"text"}]}`
	)
	answer := func(blocks string) string { return `,{"role":"assistant","content":[` + blocks + `]}` }
	for name, c := range map[string]struct {
		was, next string
		common    int
	}{
		"call left out":          {says + calls, says, 1},
		"behind thinking":        {thought + says + calls, thought + says, 2},
		"another call":           {says + calls, says + `,{"type":"tool_use","id":"b","name":"Read","input":{}}`, 2},
		"more text in its place": {says + calls, says + `,{"type":"text","text":"No."}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{}).Acquire(t.Context(), Key{ID: "s"})
			v := view(t, user1+answer(c.was)+result+answer1+user2, nil)
			states := make([]BlockState, len(v.MessageBlocks()))
			for i, b := range v.MessageBlocks() {
				if b.Kind == wire.KindText && b.Role == wire.RoleAssistant && i < 3 {
					states[i].Edit = &Edit{Op: wire.OpRemove}
				}
			}
			s.Lock()
			defer s.Unlock()
			l := s.Commit(s.Match(v), v, states)
			if m := s.Match(v); m.Conversation != l || m.Common != len(states) {
				t.Errorf("of %d blocks of the same request %d are known", len(states), m.Common)
			}
			if m := s.Match(view(t, user1+answer(c.next)+other2, nil)); m.Conversation != l || m.Common != c.common {
				t.Errorf("%d blocks are in common, want %d", m.Common, c.common)
			}
		})
	}
}

// A prompt that is sent once more may get an answer that only begins like the first: the
// request after that goes on with the second, which the model's thoughts have seen.
func TestAnswersThatBeginAlike(t *testing.T) {
	const (
		first = `,{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"a",` +
			`"name":"Read","input":{}}]}` +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"text"}]}`
		second = `,{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"b",` +
			`"name":"Read","input":{}}]}` +
			`,{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"text"}]}`
		brief = `,{"role":"assistant","content":"Let me see."}` + other2 + answer2 + user2
	)
	for name, c := range map[string]struct{ was, next string }{
		"two calls": {first, second}, "no second call": {first, brief}, "no first call": {brief, second},
	} {
		s := open(t, Options{}).Acquire(t.Context(), Key{ID: "s"})
		commit(s, view(t, user1, nil))
		main := commit(s, view(t, user1+c.was, nil))
		again := commit(s, view(t, user1, nil))
		if again == main {
			t.Fatal("a rewind took the place of what it left out")
		}
		s.Lock()
		if m := s.Match(view(t, user1+c.next, nil)); m.Conversation != again || m.Common != 1 {
			t.Errorf("%s: conversation %d has %d blocks in common", name, m.Conversation.ID(), m.Common)
		}
		s.Unlock()
	}
}

// Of two requests on their way at once that go on with a conversation in different ways,
// none takes the place of the other, whichever is answered first.
func TestWaysApart(t *testing.T) {
	const reminded = `{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"a reminder"}]}`
	s := open(t, Options{}).Acquire(t.Context(), Key{ID: "s"})
	commit(s, view(t, reminded, nil))
	slow := view(t, reminded+answer1+user2, nil)
	s.Lock()
	m := s.Match(slow)
	s.Unlock()
	commit(s, view(t, user1+answer2+other2, nil)) // the client has left the reminder out
	s.Lock()
	defer s.Unlock()
	s.Commit(m, slow, make([]BlockState, 4))
	if got := s.Match(view(t, user1+answer2+other2+answer1+user2, nil)); got.Common != 3 {
		t.Errorf("of the way that was answered first %d blocks are known", got.Common)
	}
}

// A conversation that is played once more under the same id grows a conversation of
// its own, not one for each request.
func TestReplayedConversation(t *testing.T) {
	m := open(t, Options{})
	s := m.Acquire(t.Context(), Key{ID: "s"})
	defer m.Release(s)
	bodies := []string{user1, user1 + answer1 + user2, user1 + answer1 + user2 + answer2 + user2}
	for range 2 {
		for _, body := range bodies {
			commit(s, view(t, body, nil))
		}
	}
	if len(s.conversations) != 2 {
		t.Errorf("%d conversations, want 2", len(s.conversations))
	}
}

func TestConversationsAreBounded(t *testing.T) {
	m := open(t, Options{})
	s := m.Acquire(t.Context(), Key{ID: "s"})
	defer m.Release(s)
	for i := range 3 * maxConversations {
		commit(s, view(t, fmt.Sprintf(`{"role":"user","content":"side request %d"}`, i), nil))
	}
	if len(s.conversations) != maxConversations {
		t.Errorf("%d conversations", len(s.conversations))
	}
}

// A session can be read at once after it was made, in use or not.
func TestSessionsAreThereAtOnce(t *testing.T) {
	m := open(t, Options{})
	for i := range 2000 {
		k := Key{ID: fmt.Sprint(i)}
		s := m.Acquire(t.Context(), k)
		commit(s, view(t, user1, nil))
		if m.Acquire(t.Context(), k) != s {
			t.Fatal("a session in use was not found")
		}
		m.Release(s)
		m.Release(s)
		again := m.Acquire(t.Context(), k)
		if again != s {
			t.Fatalf("session %d was lost at once", i)
		}
		m.Release(again)
	}
	if st := m.Stats(); st.Sessions != 2000 || st.Created != 2000 || st.Bytes == 0 {
		t.Errorf("%+v", st)
	}
}

// A full store takes newcomers in, however often the old ones were read, and
// keeps its bound.
func TestNewcomersAreAdmitted(t *testing.T) {
	m := open(t, Options{MaxBytes: MinMaxBytes})
	use := func(i int) {
		s := m.Acquire(t.Context(), Key{ID: fmt.Sprint(i)})
		if len(s.conversations) == 0 {
			commit(s, view(t, user1, nil))
		}
		m.Release(s)
	}
	n := 0
	for ; m.Stats().Evicted == 0; n++ {
		use(n)
	}
	for range 50 {
		for i := n - 100; i < n; i++ {
			use(i)
		}
	}
	for i := n; i < 2*n; i++ {
		use(i)
		s := m.Acquire(t.Context(), Key{ID: fmt.Sprint(i)})
		if len(s.conversations) == 0 {
			t.Fatalf("newcomer %d was refused", i)
		}
		m.Release(s)
	}
	if st := m.Stats(); st.Bytes > st.MaxBytes || st.Sessions > n {
		t.Errorf("over the bound: %+v", st)
	}
}

func TestPinnedSessionsStay(t *testing.T) {
	m := open(t, Options{MaxBytes: MinMaxBytes})
	s := m.Acquire(t.Context(), Key{ID: "pinned"})
	commit(s, view(t, user1, nil))
	m.Release(m.Acquire(t.Context(), Key{ID: "pinned"}))
	for i := 0; m.Stats().Evicted < 100; i++ {
		x := m.Acquire(t.Context(), Key{ID: fmt.Sprint(i)})
		commit(x, view(t, user1, nil))
		m.Release(x)
	}
	if m.Acquire(t.Context(), Key{ID: "pinned"}) != s {
		t.Error("a session in use was evicted")
	}
}

func TestIdleSessionsExpire(t *testing.T) {
	m := open(t, Options{IdleTTL: 10 * time.Millisecond})
	s := m.Acquire(t.Context(), Key{ID: "s"})
	commit(s, view(t, user1, nil))
	m.Release(s)
	time.Sleep(30 * time.Millisecond)
	if m.Acquire(t.Context(), Key{ID: "s"}) == s {
		t.Error("an idle session is still there")
	}
}

// Sessions that are not used again expire, except for those in use.
func TestForgottenSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, Options{IdleTTL: time.Hour})
		for _, id := range []string{"idle", "used"} {
			s := m.Acquire(t.Context(), Key{ID: id})
			commit(s, view(t, user1, nil))
			m.Release(s)
		}
		defer m.Release(m.Acquire(t.Context(), Key{ID: "used"}))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if st := m.Stats(); st.Sessions != 1 || st.Expired != 1 {
			t.Errorf("%d sessions, %d expired, want 1 and 1", st.Sessions, st.Expired)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTenantsNeverMeet(t *testing.T) {
	m := open(t, Options{})
	a := m.Acquire(t.Context(), Key{Tenant: Tenant{1}, ID: "s"})
	v := view(t, user1, nil)
	commit(a, v)
	m.Release(a)
	b := m.Acquire(t.Context(), Key{Tenant: Tenant{2}, ID: "s"})
	defer m.Release(b)
	if a == b || a.ID() == b.ID() {
		t.Error("two tenants share a session")
	}
	if m.Recall(Tenant{2}, v.First()) != nil {
		t.Error("a tenant recalls what another one sent")
	}
	if m.Recall(Tenant{1}, v.First()) == nil {
		t.Error("a tenant does not recall its own")
	}
	if c := m.Acquire(t.Context(), Key{Tenant: Tenant{1}, Upstream: "other", ID: "s"}); c == a {
		t.Error("two upstreams share a session")
	}
}

func TestFindAndDelete(t *testing.T) {
	m := open(t, Options{})
	s := m.Acquire(t.Context(), Key{ID: "s"})
	v := view(t, user1, nil)
	commit(s, v)
	m.Release(s)
	if m.Find(s.ID()) != s || m.Find("no such id") != nil {
		t.Error("not found by its id")
	}
	r := s.Report(time.Now())
	if r.ID != s.ID() || len(r.Conversations) != 1 || r.Conversations[0].Blocks != 1 {
		t.Errorf("%+v", r)
	}
	if m.Delete(s.ID()) != s || m.Delete(s.ID()) != nil || !s.Gone() {
		t.Error("deleted never, or twice")
	}
	if m.Find(s.ID()) != nil || m.Recall(Tenant{}, v.First()) != nil || m.Stats().Bytes != 0 {
		t.Error("not forgotten")
	}
	if m.Acquire(t.Context(), Key{ID: "s"}) == s {
		t.Error("back again")
	}
}

// Streams of an old configuration may release their sessions while the store
// is being closed.
func TestCloseWhileInUse(t *testing.T) {
	for range 20 {
		m := open(t, Options{})
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for j := range 20 {
					s := m.Acquire(t.Context(), Key{ID: fmt.Sprint(i, j)})
					commit(s, view(t, user1, nil))
					m.Release(s)
				}
			})
		}
		if err := errors.Join(m.Close(), m.Close()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{MaxBytes: 5}, {IdleTTL: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	m := open(t, Options{})
	if err := m.SetLimits(Options{MaxBytes: 2 << 20, IdleTTL: time.Minute}); err != nil || m.Stats().MaxBytes != 2<<20 {
		t.Errorf("limits were not changed: %v", err)
	}
}

// TestSample: samples are uniform, differ between tenants, and depend on nothing but the key.
func TestSample(t *testing.T) {
	sample := func(tenant byte, id int) float64 {
		st, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		s := st.Acquire(t.Context(), Key{Tenant: Tenant{tenant}, ID: strconv.Itoa(id)})
		defer st.Release(s)
		return s.Sample()
	}
	const n = 400
	mean, below := 0.0, 0
	for i := range n {
		x := sample(1, i)
		if x < 0 || x >= 1 || x != sample(1, i) || x == sample(2, i) {
			t.Fatalf("session %d: got %v, then %v, for another tenant %v", i, x, sample(1, i), sample(2, i))
		}
		if mean += x / n; x < 0.1 {
			below++
		}
	}
	if math.Abs(mean-0.5) > 0.05 || below < n/20 || below > n/5 {
		t.Errorf("got the mean %.3f, and %d of %d below 0.1, want 0.5 and about %d", mean, below, n, n/10)
	}
}

// A conversation stays the same when a system message at its start changes. Before the first answer another one
// makes another conversation: a request for a title has the same prompt.
func TestOtherSystemMessage(t *testing.T) {
	s := open(t, Options{}).Acquire(t.Context(), Key{ID: "a"})
	request := func(system, rest string) *wire.View {
		v, err := wire.Parse(wire.OpenAIChat, []byte(`{"messages":[{"role":"system","content":"`+system+
			`"},{"role":"user","content":"Fix the bug."}`+rest+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const answer, other, more = `,{"role":"assistant","content":"Done."}`, `,{"role":"assistant","content":"A bug"}`,
		`,{"role":"user","content":"Go on."}`
	commit(s, request("It is Monday.", ""))
	for _, c := range []struct {
		name, system, rest string
		common             int
	}{
		{"a title", "Name this.", "", 0},
		{"the next turn", "It is Monday.", answer + more, 2},
	} {
		if got := s.Match(request(c.system, c.rest)).Common; got != c.common {
			t.Errorf("%s: %d blocks in common, want %d", c.name, got, c.common)
		}
	}
	main := commit(s, request("It is Monday.", answer+more))
	for _, c := range []struct {
		name, system, rest string
		common             int
	}{
		{"the next day", "It is Tuesday.", answer + more, 4},
		{"another answer", "It is Tuesday.", other + more, 0},
		{"one message more", `It is Tuesday."},{"role":"system","content":"Be brief.`, answer + more, 0},
	} {
		got := s.Match(request(c.system, c.rest))
		if got.Common != c.common || (got.Conversation == main) != (c.common > 0) {
			t.Errorf("%s: %d blocks in common, want %d", c.name, got.Common, c.common)
		}
	}
	if a, b := request("It is Monday.", answer).First(), request("It is Tuesday.", answer).First(); a != b {
		t.Errorf("the first turn is %x, then %x", a, b)
	}
}
