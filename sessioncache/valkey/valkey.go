// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package valkey keeps sessions on a Valkey or Redis server that several processes share.
//
// A session is one string, see entry. Its key has the first eight bytes of its digest in braces, so
// that one node of a cluster runs all its operations. Each answer has a string that names its
// session. Sums and reservations of budgets are hashes, see countScript. All keys expire. Where the
// server supports tracking, see watch, unchanged sessions need no further requests.
package valkey

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Options configure the client of a server.
type Options struct {
	// Addresses are host and port of the server, of some nodes of a cluster, or of sentinels if
	// there is a Master.
	Addresses []string
	// Cluster reports whether the addresses are nodes of a cluster.
	Cluster bool
	// Master is the name of the server at the sentinels.
	Master string
	// Username and Password are for the server, SentinelUsername and SentinelPassword
	// for sentinels. Optional.
	Username, Password, SentinelUsername, SentinelPassword string
	// DB is the number of the database.
	DB int
	// TLS encrypts connections. Optional.
	TLS *tls.Config
	// Prefix begins the names of all keys.
	Prefix string
	// TTL is the time that a session is kept after its last request.
	TTL time.Duration
	// Secret is written again after the server has lost it. Zero for none.
	Secret secret.Key
	// Log receives events for the operator. Optional.
	Log func(message string, err error)
}

// Valkey is a server. It implements [sessioncache.Shared].
type Valkey struct {
	o       Options
	ttl     atomic.Int64
	client  atomic.Pointer[valkey.Client] // nil until the first connection
	watch   watch
	shards  shards
	reached chan struct{} // closed with the first connection
	end     context.CancelFunc
	done    sync.WaitGroup
}

var (
	_ sessioncache.Watcher  = (*Valkey)(nil)
	_ sessioncache.Sharded  = (*Valkey)(nil)
	_ sessioncache.Counters = (*Valkey)(nil)
)

// ErrUnreached reports that there has been no connection yet.
var ErrUnreached = errors.New("no connection yet")

const (
	dialTimeout = 2 * time.Second
	// unresponsive is the silence after which a connection is given up.
	unresponsive = 3 * time.Second
	// retry is the delay between attempts to connect.
	retry = time.Second
	// restore is the number of retries between two checks of the secret and of a cluster's slots.
	restore = 10
	buffer  = 64 << 10
)

// Open starts a client in the background. It does not wait for the server.
func Open(o Options) *Valkey {
	if o.Log == nil {
		o.Log = func(string, error) {}
	}
	ctx, end := context.WithCancel(context.Background())
	v := &Valkey{o: o, end: end, reached: make(chan struct{})}
	v.watch.prefix = v.sessions()
	v.SetTTL(o.TTL)
	v.done.Go(func() { v.attend(ctx) })
	return v
}

// SetTTL changes the time that sessions are kept.
func (v *Valkey) SetTTL(ttl time.Duration) { v.ttl.Store(ttl.Milliseconds()) }

// Reached waits for the first connection, and returns false if the context ends before.
func (v *Valkey) Reached(ctx context.Context) bool {
	select {
	case <-v.reached:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect opens a client. If told is set and the server supports client tracking, told receives the
// keys that other clients change, and tells is true.
func connect(o *Options, invalidated func([]valkey.ValkeyMessage)) (c valkey.Client, tells bool, err error) {
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: time.Second}
	options := valkey.ClientOption{
		InitAddress: o.Addresses, ShuffleInit: true, ForceSingleClient: !o.Cluster && o.Master == "",
		Username: o.Username, Password: o.Password, SelectDB: o.DB, TLSConfig: o.TLS, Dialer: dialer, ClientName: "llm_cache",
		PipelineMultiplex: -1, // one connection, so that concurrent requests share round trips
		ConnWriteTimeout:  unresponsive, ReadBufferEachConn: buffer, WriteBufferEachConn: buffer,
		DisableCache: invalidated == nil, OnInvalidations: invalidated, ClientTrackingOptions: []string{"NOLOOP"},
	}
	if o.Master != "" {
		options.Sentinel = valkey.SentinelOption{
			Dialer: dialer, TLSConfig: o.TLS, MasterSet: o.Master, Username: o.SentinelUsername, Password: o.SentinelPassword,
			TopologyRefreshInterval: 5 * time.Second,
		}
	}
	c, err = valkey.NewClient(options)
	// The server does not support client tracking.
	if errors.Is(err, valkey.ErrNoCache) {
		return connect(o, nil)
	}
	if err != nil {
		return nil, false, fmt.Errorf("valkey: %w", err)
	}
	return c, invalidated != nil, nil
}

// attend connects in the background, and then keeps the secret and the cluster's slots up to date.
func (v *Valkey) attend(ctx context.Context) {
	logged := false
	for {
		c, tells, err := connect(&v.o, v.watch.invalidate)
		if err == nil {
			v.watch.on.Store(tells)
			v.client.Store(&c)
			v.look(ctx)
			close(v.reached)
			break
		}
		if !logged {
			v.o.Log("the server cannot be reached, it is tried again each second", err)
			logged = true
		}
		if !pause(ctx, retry) {
			return
		}
	}
	if logged {
		v.o.Log("the server is reached", nil)
	}
	if v.o.Secret == (secret.Key{}) && !v.o.Cluster {
		return
	}
	logged = false
	client := *v.client.Load()
	for i := 0; ; i++ {
		if v.o.Cluster {
			v.shards.try(ctx, client)
		}
		if i%restore == 0 {
			v.look(ctx)
			logged = v.putBack(ctx, client, logged)
		}
		if !pause(ctx, retry) {
			return
		}
	}
}

// look updates the slots of a cluster.
func (v *Valkey) look(ctx context.Context) {
	if !v.o.Cluster {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, retry)
	defer cancel()
	v.shards.lookAround(ctx, *v.client.Load())
}

// putBack writes the secret if the server has lost it, and logs once if the server has another one.
func (v *Valkey) putBack(ctx context.Context, c valkey.Client, logged bool) bool {
	if v.o.Secret == (secret.Key{}) {
		return logged
	}
	ctx, cancel := context.WithTimeout(ctx, retry)
	defer cancel()
	if there, err := agree(ctx, c, v.o.Prefix, v.o.Secret); err == nil && there != v.o.Secret && !logged {
		logged = true
		v.o.Log("another secret is at the server: sessions are not shared with those who have it, until this "+
			"configuration is loaded anew", nil)
	}
	return logged
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Secret returns the secret that all users of a server share. Without one, it stores and returns
// the proposed secret.
func Secret(ctx context.Context, o *Options, proposed secret.Key) (there secret.Key, err error) {
	c, _, err := connect(o, nil)
	if err != nil {
		return there, err
	}
	defer c.Close()
	return agree(ctx, c, o.Prefix, proposed)
}

var errSecret = errors.New("what the server has for a secret is none")

func agree(ctx context.Context, c valkey.Client, prefix string, proposed secret.Key) (there secret.Key, err error) {
	key := prefix + "secret"
	// Only the first client succeeds; all others read its secret.
	if err := c.Do(ctx, c.B().Set().Key(key).Value(valkey.BinaryString(proposed[:])).Nx().Build()).Error(); err != nil &&
		!valkey.IsValkeyNil(err) {
		return there, fmt.Errorf("valkey: %w", err)
	}
	b, err := c.Do(ctx, c.B().Get().Key(key).Build()).AsBytes()
	if err != nil {
		return there, fmt.Errorf("valkey: %w", err)
	}
	if len(b) != len(there) {
		return there, errSecret
	}
	copy(there[:], b)
	return there, nil
}

func form(v sessioncache.Version) string {
	if v == 0 {
		return ""
	}
	return string(binary.BigEndian.AppendUint64(nil, uint64(v)))
}

// sessions returns the prefix of all session keys.
func (v *Valkey) sessions() string { return v.o.Prefix + "session:{" }

// key returns the key of a session.
func (v *Valkey) key(begins [8]byte) string {
	return v.sessions() + hex.EncodeToString(begins[:]) + "}"
}

// stagingKey returns the key at which a version of a session is staged.
func stagingKey(key string, next sessioncache.Version) string {
	return key + ":" + strconv.FormatUint(uint64(next), 16)
}

func (v *Valkey) answer(d sessioncache.Digest) string {
	return v.o.Prefix + "answer:" + hex.EncodeToString(d[:])
}

func beginning(d sessioncache.Digest) [8]byte { return [8]byte(d[:8]) }

func (v *Valkey) use() (valkey.Client, error) {
	c := v.client.Load()
	if c == nil {
		return nil, failed(ErrUnreached)
	}
	return *c, nil
}

// part reads the first bytes of a session, or all if last is negative. A missing session has none.
func (v *Valkey) part(c valkey.Client, begins [8]byte, last int64) valkey.Completed {
	return c.B().Getrange().Key(v.key(begins)).Start(0).End(last).Build()
}

func (v *Valkey) get(ctx context.Context, c valkey.Client, begins [8]byte, last int64) ([]byte, error) {
	all, err := c.Do(ctx, v.part(c, begins, last)).AsBytes()
	if err != nil {
		return nil, failed(err)
	}
	return all, nil
}

// Fetch implements [sessioncache.Shared].
func (v *Valkey) Fetch(
	ctx context.Context, d sessioncache.Digest, have sessioncache.Version,
) ([]byte, sessioncache.Version, error) {
	c, err := v.use()
	if err != nil {
		return nil, 0, err
	}
	v.watch.begin(beginning(d))
	// Read only the version first; usually the session is unchanged.
	if have != 0 {
		all, err := v.get(ctx, c, beginning(d), versionSize-1)
		if now := version(all); err != nil || now == 0 || now == have {
			v.watch.read(beginning(d), now)
			return nil, now, err
		}
	}
	all, err := v.get(ctx, c, beginning(d), -1)
	if err != nil || len(all) == 0 {
		v.watch.read(beginning(d), 0)
		return nil, 0, err
	}
	e := unpack(all)
	v.watch.read(beginning(d), e.version)
	if e.version == have {
		return nil, have, nil
	}
	return e.snapshot, e.version, nil
}

// Load implements [sessioncache.Backend].
func (v *Valkey) Load(ctx context.Context, d sessioncache.Digest) ([]byte, error) {
	snapshot, _, err := v.Fetch(ctx, d, 0)
	if len(snapshot) == 0 {
		return nil, err
	}
	return snapshot, err
}

// Seek implements [sessioncache.Shared].
func (v *Valkey) Seek(
	ctx context.Context, answer, d sessioncache.Digest, have sessioncache.Version,
) (of sessioncache.Digest, snapshot []byte, now sessioncache.Version, err error) {
	c, err := v.use()
	if err != nil {
		return d, nil, 0, err
	}
	if v.shards.of.Load() != nil {
		return v.seekApart(ctx, c, answer, d, have)
	}
	last := int64(-1)
	if have != 0 {
		last = versionSize - 1
	}
	v.watch.begin(beginning(d))
	// Both reads share one round trip, since usually the answer is unknown.
	results := c.DoMulti(ctx, c.B().Get().Key(v.answer(answer)).Build(), v.part(c, beginning(d), last))
	of, ok, err := v.given(ctx, c, answer, results[0])
	if err != nil || ok && of != d {
		v.watch.read(beginning(d), 0)
		return of, nil, 0, err
	}
	all, err := results[1].AsBytes()
	if err != nil {
		v.watch.read(beginning(d), 0)
		return d, nil, 0, failed(err)
	}
	e := unpack(all)
	// Only the version was read, and it is a new one.
	if have != 0 && e.version != have && e.version != 0 {
		snapshot, now, err = v.Fetch(ctx, d, have)
		return d, snapshot, now, err
	}
	v.watch.read(beginning(d), e.version)
	return d, e.snapshot, e.version, nil
}

// Answered implements [sessioncache.Backend].
func (v *Valkey) Answered(ctx context.Context, answer sessioncache.Digest) (d sessioncache.Digest, ok bool, err error) {
	c, err := v.use()
	if err != nil {
		return d, false, err
	}
	return v.given(ctx, c, answer, c.Do(ctx, c.B().Get().Key(v.answer(answer)).Build()))
}

// given returns the session of an answer, if that session still names the answer.
func (v *Valkey) given(
	ctx context.Context, c valkey.Client, answer sessioncache.Digest, there valkey.ValkeyResult,
) (d sessioncache.Digest, ok bool, err error) {
	b, err := there.AsBytes()
	if valkey.IsValkeyNil(err) || err == nil && len(b) != len(d) {
		return d, false, nil
	}
	if err != nil {
		return d, false, failed(err)
	}
	copy(d[:], b)
	// The key may be left over from a lost race.
	e, err := v.begun(ctx, c, beginning(d))
	return d, e.has(answer), err
}

// Named implements [sessioncache.Backend].
func (v *Valkey) Named(ctx context.Context, begins [8]byte) (d sessioncache.Digest, ok bool, err error) {
	c, err := v.use()
	if err != nil {
		return d, false, err
	}
	e, err := v.begun(ctx, c, begins)
	return e.name, len(e.snapshot) > 0, err
}

// begun reads a session's head, with its answers and the first bytes of the snapshot.
func (v *Valkey) begun(ctx context.Context, c valkey.Client, begins [8]byte) (entry, error) {
	all, err := v.get(ctx, c, begins, int64(headSize+maxAnswers*digestSize))
	return unpack(all), err
}

// Save implements [sessioncache.Backend].
func (v *Valkey) Save(ctx context.Context, records []sessioncache.Record) error {
	swaps := make([]*sessioncache.Swap, len(records))
	for i, r := range records {
		swaps[i] = &sessioncache.Swap{Record: r, Next: sessioncache.NewVersion()}
	}
	v.swap(ctx, swaps, anything)
	for _, s := range swaps {
		if s.Err != nil {
			return s.Err
		}
	}
	return nil
}

// Delete implements [sessioncache.Backend]. The remaining entry, without a snapshot, tells other
// processes of the deletion.
func (v *Valkey) Delete(ctx context.Context, d sessioncache.Digest) error {
	return v.Save(ctx, []sessioncache.Record{{Digest: d}})
}

// Usage implements [sessioncache.Backend]. Counting the keys of a server is too expensive.
func (v *Valkey) Usage() (sessions int, bytes int64) { return 0, 0 }

// Close implements [sessioncache.Backend].
func (v *Valkey) Close() error {
	v.end()
	v.done.Wait()
	if c := v.client.Load(); c != nil {
		(*c).Close()
	}
	return nil
}
