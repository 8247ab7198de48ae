// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/reuse"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// UserEntry names a user by a credential or a placeholder.
type UserEntry struct {
	// Is identifies the user's requests. It is an API key, as `{env.ANNAS_KEY}` or
	// `{file./run/secrets/anna}` rather than in plain text; or `sha256:` and the SHA-256 of the key
	// in hexadecimal; or the 16 digits by which the report and the page show an unnamed user.
	// Without a name it is a placeholder with the names of all users, such as
	// `{http.auth.user.id}`, which is used in any case, or `{http.request.header.X-User}`. Clients
	// must not be able to choose its value, or one could pose as another. Several entries may have
	// the same name: the old and the new key of one user.
	Is string `json:"is"`
	// Name is the user's name in the report, on the page, in records, metrics and budgets. At
	// most 64 bytes. Default: the value of the placeholder.
	Name string `json:"name,omitempty"`
}

const (
	maxName = 64
	// hashDigits is the length of an unnamed user's hash, hashPrefix the prefix of a key's SHA-256.
	hashDigits = 16
	hashPrefix = "sha256:"
)

// Validate reports an invalid entry, without revealing a key.
func (u *UserEntry) Validate() error {
	switch {
	case u.Is == "":
		return errors.New("no key, hash or placeholder is given")
	case u.Name == "" && !Differs(u.Is):
		return errors.New("the name is missing: without one, a placeholder has to name everybody")
	case u.Name != "" && Differs(u.Is):
		return fmt.Errorf("%q: a placeholder that differs from request to request names people itself", u.Name)
	case len(u.Name) > maxName || printable(u.Name) != u.Name:
		return fmt.Errorf("a name is longer than %d bytes, or cannot be printed", maxName)
	}
	return nil
}

// Users maps requests to users. Nil has no configured users.
type Users struct {
	keys   map[[sha256.Size]byte]string // names by the SHA-256 of keys
	hashes map[string]string            // names by the hash in records
	by     []string                     // placeholders
}

// NewUsers reads the users of the configuration and of a file, "" for none. Keys are not kept.
func NewUsers(users []UserEntry, file string) (*Users, error) {
	p := &Users{keys: map[[sha256.Size]byte]string{}, hashes: map[string]string{}}
	for i := range users {
		if err := p.add(users[i]); err != nil {
			return nil, fmt.Errorf("user: %w", err)
		}
	}
	if file == "" {
		return p, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("users_file: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		is, name := line, ""
		if at := strings.IndexFunc(line, unicode.IsSpace); at > 0 {
			is, name = line[:at], strings.TrimSpace(line[at:])
		}
		if err := p.add(UserEntry{Is: is, Name: name}); err != nil {
			return nil, fmt.Errorf("users_file: %s:%d: %w", file, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("users_file: %s: %w", file, err)
	}
	return p, nil
}

func (p *Users) add(u UserEntry) error {
	if err := u.Validate(); err != nil {
		return err
	}
	if u.Name == "" {
		p.by = append(p.by, u.Is)
		return nil
	}
	is, err := caddy.NewReplacer().ReplaceOrErr(u.Is, true, true)
	switch {
	case err != nil:
		return fmt.Errorf("%q: the key: %w", u.Name, err)
	case isHash(is, hashDigits):
		return addTo(p.hashes, is, u.Name)
	case strings.HasPrefix(is, hashPrefix):
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(is[len(hashPrefix):])); err != nil || n != len(sum) {
			return fmt.Errorf("%q: no SHA-256 in hexadecimal stands behind %s", u.Name, hashPrefix)
		}
		return addTo(p.keys, sum, u.Name)
	}
	// Keep the hash only, not the key.
	return addTo(p.keys, sha256.Sum256([]byte(bare(is))), u.Name)
}

func addTo[K comparable](names map[K]string, key K, name string) error {
	if other, ok := names[key]; ok && other != name {
		return fmt.Errorf("%q and %q are known by the same key", other, name)
	}
	names[key] = name
	return nil
}

// isHash reports whether text is a hash of so many digits, in lower case.
func isHash(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}

// User is the user behind a request, independent of the header that carries the key. Several keys
// of one configured user give the same user.
type User struct {
	// Hash is a keyed hash of the credential.
	Hash string
	// Name is the user's name, or the hash without one.
	Name string
}

// Of returns the user behind a request. A configured user's key counts in any header. Otherwise the
// credential in the API's own header counts; reads names that header, "" for Authorization. Users
// without a configured name are named by the first placeholder that is not empty, or by Caddy's
// authenticated user ID.
func (p *Users) Of(r *http.Request, k *Key, reads string) User {
	n := p.known(r, k, reads)
	return User{Hash: n.hash, Name: p.name(r, n)}
}

// OfTenant is [Users.Of] for a known tenant. It caches the result by tenant.
func (p *Users) OfTenant(r *http.Request, k *Key, t sessioncache.Tenant, reads string) User {
	if namedTenant(r).alone { // one tenant may have several users, by their credentials
		return p.Of(r, k, reads)
	}
	// A direct-mapped cache, indexed by the first byte of the tenant.
	at := &k.users[t[0]]
	n := at.Load()
	if n == nil || n.tenant != t || n.users != p || n.reads != reads {
		n = p.known(r, k, reads)
		n.tenant, n.users, n.reads = t, p, reads
		at.Store(n)
	}
	return User{Hash: n.hash, Name: p.name(r, n)}
}

// knownUser is the cached user of a tenant at an API.
type knownUser struct {
	tenant sessioncache.Tenant
	users  *Users
	reads  string

	hash string
	name string // "" for no configured user
}

// known returns the hash of a request's user, and the name if the key is configured.
func (p *Users) known(r *http.Request, k *Key, reads string) *knownUser {
	keys := keysOf(r)
	if p != nil {
		for _, key := range keys.all {
			name, ok := p.keys[sha256.Sum256([]byte(key))]
			var hash string
			if !ok && len(p.hashes) > 0 {
				hash = k.userHash(r, key)
				name, ok = p.hashes[hash]
			}
			if ok {
				return &knownUser{hash: cmp.Or(hash, k.userHash(r, key)), name: name}
			}
		}
	}
	n := &knownUser{hash: k.userHash(r, keys.at(reads))}
	if p != nil { // a tenant by placeholders alone has a hash, too
		n.name = p.hashes[n.hash]
	}
	return n
}

// userHash returns the hash of the user with a key, "" for none. The header of the key does not matter.
func (k *Key) userHash(r *http.Request, key string) string {
	sum := k.hash(r, func(b []byte, r *http.Request) []byte {
		if namedTenant(r).alone {
			return appendNamed(b, r)
		}
		if key != "" {
			b = append(append(b, "Bearer "...), key...)
			b = append(b, 0, 0)
		} else {
			b = AppendField(b, "")
		}
		// Hash like a request with the key in Authorization, so that the header does not matter.
		for range credentials[1:] {
			b = AppendField(b, "")
		}
		return appendNamed(b, r)
	})
	var digits [hashDigits]byte
	hex.Encode(digits[:], sum[:hashDigits/2])
	return reuse.Intern(digits[:])
}

func (p *Users) name(r *http.Request, n *knownUser) string {
	if n.name != "" {
		return n.name
	}
	if p != nil {
		if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			for _, by := range p.by {
				if name := printable(repl.ReplaceAll(by, "")); name != "" {
					return name
				}
			}
		}
	}
	if user := authenticated(r); user != "" {
		return cmp.Or(printable(user), n.hash)
	}
	return n.hash
}

// printable bounds a name, and removes characters that could control a terminal.
func printable(name string) string {
	if len(name) > maxName {
		name = strings.Clone(name[:maxName]) // copy, since a header may have a megabyte
		// The cut may be inside a rune.
		for len(name) > 0 && !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
}

// bare returns the key in a credential, without the scheme.
func bare(v string) string {
	const scheme = "Bearer "
	if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return strings.TrimSpace(v[len(scheme):])
	}
	return v
}

// keys are the keys in a request: all of them, and the first in each place.
type keys struct {
	all   []string
	first [len(credentials) + 1]string // in the order of credentials; the query is the last
}

// maxKeys bounds the examined keys in one place.
const maxKeys = 64

// keysOf returns the keys of a request, in the order of credentials and parameters.
func keysOf(r *http.Request) (k keys) {
	see := func(place int, v string) {
		if v = bare(lasting(v)); v == "" {
			return
		}
		if k.first[place] == "" {
			k.first[place] = v
		}
		k.all = append(k.all, v)
	}
	for i, name := range credentials {
		for _, v := range r.Header[name][:min(len(r.Header[name]), maxKeys)] {
			see(i, v)
		}
	}
	if r.URL.RawQuery != "" {
		query, _ := url.ParseQuery(r.URL.RawQuery) // the readable part of a malformed query counts
		for _, name := range parameters {
			for _, v := range query[name][:min(len(query[name]), maxKeys)] {
				see(len(credentials), v)
			}
		}
	}
	return k
}

// at returns the key in the header that an API reads, "" for Authorization. If it is missing, the
// first key in another place counts.
func (k *keys) at(reads string) string {
	place := max(0, slices.Index(credentials[:], reads))
	key := k.first[place]
	if reads == "X-Goog-Api-Key" { // the Gemini API also reads the query
		key = cmp.Or(key, k.first[len(credentials)])
	}
	return cmp.Or(key, cmp.Or(k.first[:]...))
}
