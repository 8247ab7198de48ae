// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package sessioncache_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache/storetest"
)

var sharedKey = sessioncache.Key{Tenant: sessioncache.Tenant{1}, Upstream: "u", ID: "s"}

// sharing is a store over a backend that others use as well.
func sharing(t *testing.T, shelf *storetest.SharedShelf) *sessioncache.Store {
	t.Helper()
	return sharingWithin(t, shelf, time.Minute)
}

func sharingWithin(t *testing.T, shelf *storetest.SharedShelf, budget time.Duration) *sessioncache.Store {
	t.Helper()
	d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
		Open:     func() (sessioncache.Backend, error) { return shelf, nil },
		Interval: time.Hour, Budget: budget,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// converse has an upstream accept a request with one more message, and others know of it.
func converse(
	t *testing.T, d *sessioncache.Store, messages string,
) (*sessioncache.Session, *sessioncache.Conversation) {
	t.Helper()
	s, l := commit(t, d, messages)
	d.Flush()
	return s, l
}

func commit(t *testing.T, d *sessioncache.Store, messages string) (*sessioncache.Session, *sessioncache.Conversation) {
	t.Helper()
	return commitTo(t, d, sharedKey, messages)
}

func commitTo(
	t *testing.T, d *sessioncache.Store, k sessioncache.Key, messages string,
) (*sessioncache.Session, *sessioncache.Conversation) {
	t.Helper()
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Request = v
	s := d.Acquire(t.Context(), k)
	s.Lock()
	l := s.Commit(s.Match(v), v, sessioncache.NewBlockStates(len(v.MessageBlocks())))
	s.CountRequest(l)
	l.Started = time.Now()
	s.Unlock()
	d.Hold(s)
	d.Publish(s)
	d.Release(s)
	return s, l
}

// claim has a request begin that makes a new edit.
func claim(t *testing.T, d *sessioncache.Store, messages string) {
	t.Helper()
	v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+messages+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := d.Acquire(t.Context(), sharedKey)
	defer d.Release(s)
	s.Lock()
	m := s.Match(v)
	s.Unlock()
	d.Claim(t.Context(), s, m, v, sessioncache.NewBlockStates(len(v.MessageBlocks())), func(*sessioncache.Conversation) {})
}

const (
	firstMessage = `{"role":"user","content":"one"}`
	moreMessages = firstMessage + `,{"role":"assistant","content":"two"},{"role":"user","content":"three"}`
	sideMessage  = `{"role":"user","content":"a side request"}`
)

// Pending claims take memory, and count.
func TestClaimsCount(t *testing.T) {
	d := sharing(t, new(storetest.SharedShelf))
	_, l := commit(t, d, firstMessage)
	before := d.Stats().Bytes
	const n = 1000
	claim(t, d, moreMessages+strings.Repeat(`,{"role":"assistant","content":"a"},{"role":"user","content":"b"}`, n))
	if got, least := d.Stats().Bytes-before,
		int64(2*n*int(unsafe.Sizeof(sessioncache.BlockState{})+unsafe.Sizeof(wire.Block{}))); got < least {
		t.Errorf("%d bytes more are accounted for, %d are held", got, least)
	}
	before = d.Stats().Bytes
	l.Model = strings.Repeat("m", 5000)
	d.Release(d.Acquire(t.Context(), sharedKey))
	if got := d.Stats().Bytes - before; got < 5000 {
		t.Errorf("of the name of a model %d bytes are accounted for", got)
	}
}

// The process with the last request of a conversation owns it, even if another one has the
// session's other conversations.
func TestOwnsWhatCameLast(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := sharing(t, shelf), sharing(t, shelf)
	a, l := converse(t, one, firstMessage)
	b, side := converse(t, other, sideMessage)
	if !one.Owns(t.Context(), a, l.ID()) || !other.Owns(t.Context(), b, side.ID()) {
		t.Error("each owns what came to it")
	}
	if one.Owns(t.Context(), a, side.ID()) || other.Owns(t.Context(), b, l.ID()) {
		t.Error("nobody owns what came to the other")
	}
	if _, again := converse(t, other, moreMessages); again.ID() != l.ID() || again.Requests != 2 {
		t.Errorf("conversation %d goes on as %d, with %d requests", l.ID(), again.ID(), again.Requests)
	}
	if one.Owns(t.Context(), a, l.ID()) || !other.Owns(t.Context(), b, l.ID()) {
		t.Error("the conversation is owned by whom it has left")
	}
}

// The process still owns the conversation after the session was packed, since pings are due minutes
// later.
func TestOwnsWhatIsPacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := new(storetest.SharedShelf)
		one, other := sharing(t, shelf), sharing(t, shelf)
		a, l := converse(t, one, firstMessage)
		b := other.Acquire(t.Context(), sharedKey)
		other.Release(b)
		before := one.Stats().Bytes
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if one.Stats().Bytes >= before {
			t.Fatal("it is not packed")
		}
		if !one.Owns(t.Context(), a, l.ID()) {
			t.Error("nobody owns the conversation any more")
		}
		if other.Owns(t.Context(), b, l.ID()) {
			t.Error("it is owned by whom it never came to")
		}
		_ = one.Close()
		_ = other.Close()
	})
}

// A session deleted by one process is gone for the others.
func TestDeletedForAll(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := sharing(t, shelf), sharing(t, shelf)
	a, _ := converse(t, one, firstMessage)
	other.Delete(a.ID())
	s := one.Acquire(t.Context(), sharedKey)
	defer one.Release(s)
	if s == a || !a.Gone() {
		t.Error("a session goes on that was deleted elsewhere")
	}
	v, _ := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+firstMessage+`]}`), nil)
	s.Lock()
	defer s.Unlock()
	if s.Match(v).Conversation != nil {
		t.Error("something is left of it")
	}
}

// A session deleted while the backend is down does not return with it.
func TestDeletedWhileDown(t *testing.T) {
	shelf := new(storetest.SharedShelf)
	one, other := sharing(t, shelf), sharing(t, shelf)
	a, _ := converse(t, one, firstMessage)
	b, l := converse(t, other, moreMessages)
	shelf.Fail = func() error { return errors.New("down") }
	b.KeepWarm(l.ID(), time.Now())
	if one.Delete(a.ID()) != a {
		t.Fatal("it is not deleted")
	}
	one.Flush() // in vain
	shelf.Fail = nil
	one.Flush()
	for name, d := range map[string]*sessioncache.Store{"who has deleted it": one, "who comes later": sharing(t, shelf)} {
		if d.Find(a.ID()) != nil {
			t.Errorf("%s finds it again", name)
		}
	}
	other.Publish(b)
	other.Flush()
	if sharing(t, shelf).Find(a.ID()) != nil {
		t.Error("who had it writes it again")
	}
	if _, l := converse(t, one, firstMessage); l.Requests != 1 || sharing(t, shelf).Find(a.ID()) == nil {
		t.Error("it cannot begin anew")
	}
}

// undeletable is a backend that cannot delete.
type undeletable struct{ *storetest.Shelf }

func (undeletable) Delete(context.Context, sessioncache.Digest) error { return errors.New("read-only") }

// A failing deletion does not prevent other writes.
func TestUndeletableKeepsNobody(t *testing.T) {
	shelf := new(storetest.Shelf)
	d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return undeletable{shelf}, nil }, Interval: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, _ := converse(t, d, firstMessage)
	d.Delete(a.ID())
	k := sharedKey
	k.ID = "another"
	commitTo(t, d, k, firstMessage)
	before := shelf.Saves
	if d.Flush(); shelf.Saves == before {
		t.Error("nothing is written any more")
	}
}

// How many requests conversations have run all processes learn from each, and from those
// that are gone.
func TestCountsTogether(t *testing.T) {
	const kind = 7
	count := func(store *sessioncache.Store, conversations int) *sessioncache.Session {
		s := store.Acquire(t.Context(), sharedKey)
		s.Lock()
		defer s.Unlock()
		for range conversations {
			l := &sessioncache.Conversation{Kind: kind}
			for range 12 {
				s.CountRequest(l)
			}
		}
		return s
	}
	expects := func(s *sessioncache.Session) (float64, bool) {
		s.Lock()
		defer s.Unlock()
		return s.ExpectedRemaining(kind, nil)
	}
	alone, err := sessioncache.New(sessioncache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	want, ok := expects(count(alone, 12))
	if !ok {
		t.Fatal("twelve conversations are too few to tell")
	}
	shelf := new(storetest.SharedShelf)
	open := func() *sessioncache.Store {
		d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{
			Open:     func() (sessioncache.Backend, error) { return shelf, nil },
			Interval: time.Millisecond, Budget: time.Minute,
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	one, other := open(), open()
	a, b := count(one, 6), count(other, 6)
	knows := func(who string, s *sessioncache.Session) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			got, ok := expects(s)
			if ok && got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s expects %g more requests (%t), not %g", who, got, ok, want)
			}
		}
	}
	knows("one", a)
	knows("the other", b)
	for _, d := range []*sessioncache.Store{one, other} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	knows("who comes later", open().Acquire(t.Context(), sharedKey))
}

// The backend is not asked about a session if only this process can have answered last.
func TestAsksWhereOthersMayHaveAnswered(t *testing.T) {
	const (
		said  = `,{"role":"assistant","content":"two"},{"role":"user","content":"three"}`
		again = `,{"role":"assistant","content":"four"},{"role":"user","content":"five"}`
	)
	for name, c := range map[string]struct {
		before    string // earlier request to this process; the first message if empty
		elsewhere string // later request to another process
		request   string
		asks      bool
	}{
		"the next":                 {request: firstMessage + said},
		"the first":                {request: firstMessage, asks: true},
		"the first, elsewhere too": {elsewhere: firstMessage, request: firstMessage, asks: true},
		"sent again":               {before: firstMessage + said, request: firstMessage + said, asks: true},
		"two answers later":        {request: firstMessage + said + again, asks: true},
		"another conversation":     {request: sideMessage + said, asks: true},
		"written anew":             {request: `{"role":"user","content":"One"}` + said, asks: true},
		"answered elsewhere":       {elsewhere: firstMessage + said, request: firstMessage + said + again, asks: true},
		"sent again elsewhere":     {elsewhere: firstMessage, request: firstMessage + said, asks: true},
		"beside it, elsewhere":     {elsewhere: sideMessage, request: firstMessage + said, asks: true},
		"went on in two answers, alone": {request: firstMessage +
			`,{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}`},
	} {
		t.Run(name, func(t *testing.T) {
			shelf := new(storetest.SharedShelf)
			one, other := sharing(t, shelf), sharing(t, shelf)
			converse(t, one, cmp.Or(c.before, firstMessage))
			if c.elsewhere != "" {
				converse(t, other, c.elsewhere)
			}
			v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+c.request+`]}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			before := shelf.Fetches
			k := sharedKey
			k.Request = v
			one.Release(one.Acquire(t.Context(), k))
			if asked := shelf.Fetches > before; asked != c.asks {
				t.Errorf("asked: %t", asked)
			}
		})
	}
}

// A request with one answer more than known waits for its publication, while there is patience left
// for a claim. Other requests do not wait.
func TestWaitsForTheLastAnswer(t *testing.T) {
	const (
		budget = 10 * time.Millisecond
		said   = `,{"role":"assistant","content":"two"},{"role":"user","content":"three"}`
		again  = `,{"role":"assistant","content":"four"},{"role":"user","content":"five"}`
		more   = `,{"role":"assistant","content":"six"},{"role":"user","content":"seven"}`
	)
	for name, c := range map[string]struct {
		told, published string // requests elsewhere: long ago, and just now
		claimed         bool   // the latest request elsewhere had a new edit
		request         string
		knows           bool
		waits           time.Duration
	}{
		"the first answer": {
			published: firstMessage, request: firstMessage + said, knows: true,
			waits: time.Millisecond,
		},
		"a later one": {told: firstMessage, published: firstMessage + said, request: firstMessage + said +
			again, knows: true, waits: time.Millisecond},
		"of what was claimed": {
			published: firstMessage, claimed: true, request: firstMessage + said, knows: true,
			waits: time.Millisecond,
		},
		"the next":                      {told: firstMessage, request: firstMessage + said, knows: true},
		"sent again":                    {told: firstMessage + said, request: firstMessage + said, knows: true},
		"nobody has given it":           {told: firstMessage, request: firstMessage + said + again, waits: budget / 2},
		"nobody has given two":          {told: firstMessage, request: firstMessage + said + again + more},
		"a conversation from elsewhere": {request: firstMessage + said + again},
		"one that begins":               {request: firstMessage},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shelf := new(storetest.SharedShelf)
				one, other := sharingWithin(t, shelf, budget), sharingWithin(t, shelf, budget)
				if c.told != "" {
					converse(t, one, c.told)
				}
				if c.claimed {
					claim(t, one, c.published)
				}
				if c.published != "" {
					commit(t, one, c.published)
				}
				k := sharedKey
				var err error
				if k.Request, err = wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+c.request+`]}`),
					nil); err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				s := other.Acquire(t.Context(), k)
				if waited := time.Since(begun); waited < c.waits || waited > c.waits+time.Millisecond || waited > 0 &&
					c.waits == 0 {
					t.Errorf("it waits %s, not %s", waited, c.waits)
				}
				s.Lock()
				m := s.Match(k.Request)
				s.Unlock()
				if knows := m.Conversation != nil && m.Common >= len(k.Request.MessageBlocks())-2; knows != c.knows {
					t.Errorf("it knows what came before: %t", knows)
				}
				other.Release(s)
				_, _ = one.Close(), other.Close()
			})
		})
	}
}

// Concurrent publications are written in one message.
func TestPublishesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := new(sluggish)
		d, err := sessioncache.New(sessioncache.Options{Backend: sessioncache.BackendOptions{Open: func() (sessioncache.Backend, error) { return back, nil }, Interval: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		v, err := wire.Parse(wire.Anthropic, []byte(`{"model":"m","messages":[`+firstMessage+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "b", "c", "a"} {
			k := sharedKey
			k.ID = id
			s := d.Acquire(t.Context(), k)
			s.Lock()
			s.CountRequest(s.Commit(s.Match(v), v, sessioncache.NewBlockStates(1)))
			s.Unlock()
			d.Publish(s)
			d.Release(s)
		}
		back.asked.Store(0)
		time.Sleep(100 * time.Millisecond)
		if kept, _ := back.Usage(); kept != 3 || back.asked.Load() != 1 {
			t.Errorf("%d sessions are kept, in %d messages", kept, back.asked.Load())
		}
	})
}
