// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package valkey

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/option"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/secret"
	"github.com/caddy-llm-cache/caddy-llm-cache/sessioncache"
)

// Defaults of the Valkey store.
const (
	defaultAddress = "localhost:6379"
	defaultPrefix  = "llm_cache:"
	defaultTimeout = 5 * time.Millisecond
	defaultTTL     = 24 * time.Hour
	maxTimeout     = time.Second
)

// Store keeps sessions in the memory of the process and, sealed, on a Valkey or Redis server (7 or
// later) that several Caddys share. A conversation continues at whichever of them its next request
// arrives. The server gets neither text of clients nor credentials. While it is slow or
// unreachable, each Caddy works on its own.
type Store struct {
	// Mode is the meaning of the addresses: empty for one server, "cluster", or "sentinel".
	Mode string `json:"mode,omitempty"`
	// Master is the name of the server at the sentinels. With mode "sentinel" only.
	Master string `json:"master,omitempty"`
	// Addresses are the host and the port of the server, of some nodes of the cluster, or of the
	// sentinels. They may contain placeholders. Default: localhost:6379.
	Addresses []string `json:"addresses,omitempty"`
	// Username is the user name at the server. It may contain placeholders. Default: the server's
	// default user.
	Username string `json:"username,omitempty"`
	// Password is the password for the server. It may be a placeholder, such as
	// {env.VALKEY_PASSWORD} or {file./run/secrets/valkey}. Default: none.
	Password string `json:"password,omitempty"`
	// SentinelUsername is the user name at the sentinels. It may contain placeholders. Default:
	// none.
	SentinelUsername string `json:"sentinel_username,omitempty"`
	// SentinelPassword is the password for the sentinels. It may be a placeholder. Default: none.
	SentinelPassword string `json:"sentinel_password,omitempty"`
	// DB is the number of the database. A cluster has only 0. Default: 0.
	DB int `json:"db,omitempty"`
	// TLS encrypts connections. Its members are those of `tls` in the transport `http` of
	// reverse_proxy. The server's certificate must have the host of its address as a name, unless
	// server_name is set. Paths of client certificate files may contain placeholders. Default: no
	// encryption.
	TLS *reverseproxy.TLSConfig `json:"tls,omitempty"`
	// KeyPrefix begins the names of all keys on the server. Default: `llm_cache:`.
	KeyPrefix string `json:"key_prefix,omitempty"`
	// Timeout bounds all waits of one request for the server together: on arrival, and before an
	// edit is sent for the first time. A request waits for an answer that another Caddy is about to
	// write for half of Timeout, and 100 ms at most. After an operation that took longer, no
	// request waits for a second. Checks of budgets have a Timeout of their own. Between 1ms and 1s.
	// Default: 5ms.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// TTL is the time that a session is kept after its last request. At least 1m. Default: 24h.
	TTL caddy.Duration `json:"ttl,omitempty"`
	// Key seals the records on the server and distinguishes tenants: 32 bytes in hexadecimal or
	// base64, the same for all Caddys that share the server. It may be a placeholder, such as
	// {env.LLM_CACHE_KEY}. Default: the key in KeyFile.
	Key string `json:"key,omitempty"`
	// KeyFile is the path of a file with the key in the same form. It may contain placeholders. A
	// missing file is made with a new key, readable by its owner only. Default: the first Caddy
	// stores a key on the server, so that everyone with full read access to the server can open the
	// records.
	KeyFile string `json:"key_file,omitempty"`

	key     secret.Key // found by Provision
	atStore bool       // the key is stored on the server
	options Options
	logger  *zap.Logger
}

// Interface guards
var (
	_ app.Store             = (*Store)(nil)
	_ app.Secretive         = (*Store)(nil)
	_ app.Beginner          = (*Store)(nil)
	_ caddy.Provisioner     = (*Store)(nil)
	_ caddyfile.Unmarshaler = (*Store)(nil)
)

func init() { caddy.RegisterModule(Store{}) }

// CaddyModule returns the Caddy module information.
func (Store) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "llm_cache.stores.valkey", New: func() caddy.Module { return new(Store) }}
}

// Provision sets defaults, validates the options, and finds the key.
func (s *Store) Provision(ctx caddy.Context) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if len(s.Addresses) == 0 {
		s.Addresses = []string{defaultAddress}
	}
	if s.KeyPrefix == "" {
		s.KeyPrefix = defaultPrefix
	}
	if s.Timeout == 0 {
		s.Timeout = caddy.Duration(defaultTimeout)
	}
	if s.TTL == 0 {
		s.TTL = caddy.Duration(defaultTTL)
	}
	s.logger = ctx.Logger()
	if err := s.resolve(ctx); err != nil {
		return err
	}
	if s.Key != "" || s.KeyFile != "" {
		var err error
		s.key, err = option.Key(s.Key, s.KeyFile, "")
		return err
	}
	// The server has the key, or gets a new one.
	return s.shareKey(ctx)
}

// resolve sets the options of the client.
func (s *Store) resolve(ctx caddy.Context) error {
	repl := caddy.NewReplacer()
	s.options = Options{
		Cluster: s.Mode == "cluster", Master: s.Master, DB: s.DB, Prefix: s.KeyPrefix,
		TTL: time.Duration(s.TTL),
	}
	for _, a := range s.Addresses {
		a = repl.ReplaceAll(a, "")
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("address: %w", err)
		}
		s.options.Addresses = append(s.options.Addresses, a)
	}
	for _, o := range []struct {
		name, from string
		to         *string
	}{
		{"username", s.Username, &s.options.Username},
		{"password", s.Password, &s.options.Password},
		{"sentinel_username", s.SentinelUsername, &s.options.SentinelUsername},
		{"sentinel_password", s.SentinelPassword, &s.options.SentinelPassword},
	} {
		text, err := repl.ReplaceOrErr(o.from, true, true)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		*o.to = strings.TrimRight(text, "\r\n") // files end with a line break
	}
	if s.TLS == nil {
		return nil
	}
	var err error
	if s.options.TLS, err = s.tlsConfig(ctx); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	return nil
}

// tlsConfig returns Caddy's TLS configuration for the options, never nil without an error.
func (s *Store) tlsConfig(ctx caddy.Context) (*tls.Config, error) {
	t := *s.TLS
	t.ClientCertificateFile, t.ClientCertificateKeyFile = option.Expand(t.ClientCertificateFile),
		option.Expand(t.ClientCertificateKeyFile)
	c, err := t.MakeTLSClientConfig(ctx)
	if c == nil {
		c = new(tls.Config)
	}
	return c, err
}

// awaited bounds the time that a starting configuration waits for the server.
const awaited = 2 * time.Second

// shareKey reads the key from the server, and keeps a copy for when the server has lost it or
// cannot be reached.
func (s *Store) shareKey(ctx context.Context) error {
	copied := filepath.Join(option.DataDir(), "valkey.key")
	known, err := secret.ReadFile(copied)
	if err != nil {
		known = secret.Random()
	}
	hasCopy := err == nil
	ctx, cancel := context.WithTimeout(ctx, awaited)
	defer cancel()
	s.key, err = Secret(ctx, &s.options, known)
	s.atStore = true
	if err != nil {
		s.key = known
		if !hasCopy {
			s.atStore = false
			s.logger.Error("the key that is shared cannot be read: sessions are not shared until this configuration is "+
				"loaded anew", zap.Error(err))
		}
		return nil
	}
	if hasCopy && s.key == known {
		return nil
	}
	if err := secret.WriteFile(copied, s.key); err != nil {
		s.logger.Warn("the key that is shared cannot be kept here", zap.Error(err))
	}
	return nil
}

// Validate reports the first invalid option.
func (s *Store) Validate() error {
	switch {
	case s.Mode != "" && s.Mode != "cluster" && s.Mode != "sentinel":
		return fmt.Errorf("mode must be cluster or sentinel, got %q", s.Mode)
	case (s.Mode == "sentinel") != (s.Master != ""):
		return errors.New("master: sentinels, and nobody else, need the name of the server")
	case s.Mode != "sentinel" && (s.SentinelUsername != "" || s.SentinelPassword != ""):
		return errors.New("sentinel_username and sentinel_password: there are no sentinels")
	case s.DB < 0 || s.DB != 0 && s.Mode == "cluster":
		return fmt.Errorf("db: there is no database %d", s.DB)
	case s.Key != "" && s.KeyFile != "":
		return option.ErrTwoKeys
	case s.Timeout != 0 && (time.Duration(s.Timeout) < time.Millisecond || time.Duration(s.Timeout) > maxTimeout):
		return fmt.Errorf("timeout must be between 1ms and %s, got %s", maxTimeout, time.Duration(s.Timeout))
	case s.TTL != 0 && time.Duration(s.TTL) < app.MinIdleTTL:
		return fmt.Errorf("ttl: %s is below %s", time.Duration(s.TTL), app.MinIdleTTL)
	}
	return nil
}

// Identity implements Store.
func (s *Store) Identity() string {
	said := *s
	// TTL can change in place, see Adjust. Passwords count with their placeholders resolved.
	said.TTL, said.Password, said.SentinelPassword = 0, s.options.Password, s.options.SentinelPassword
	text, _ := json.Marshal(&said) //nolint:gosec // of texts and numbers only, and hashed
	id := s.key.Derive("identity " + string(text))
	return strings.Join(s.options.Addresses, ",") + " " + hex.EncodeToString(id[:8])
}

// Secret returns the key that tenants are hashed with, the same in every process with the store's
// key.
func (s *Store) Secret() secret.Key {
	return s.key.Derive("tenants")
}

// Open implements Store. The backend connects when the configuration starts.
func (s *Store) Open() (*sessioncache.Store, error) {
	o := s.options
	if s.atStore {
		o.Secret = s.key
	}
	o.Log = func(message string, err error) {
		s.logger.Warn(message, zap.Strings("addresses", o.Addresses), zap.Error(err))
	}
	store, err := sessioncache.New(s.memory())
	if err != nil {
		return nil, err
	}
	p, err := app.Persister(store, s.logger, sessioncache.BackendOptions{
		Name: strings.Join(s.options.Addresses, ","), Key: s.key, Budget: time.Duration(s.Timeout),
		Open: func() (sessioncache.Backend, error) {
			v := Open(o)
			ctx, cancel := context.WithTimeout(context.Background(), awaited)
			defer cancel()
			v.Reached(ctx) // without a connection, earlier sessions would be unknown at first
			return v, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return store, store.Move(p)
}

// Begin implements Beginner. It waits briefly for the server.
func (s *Store) Begin(store *sessioncache.Store) error { return store.Persister().Begin() }

// Adjust implements Store.
func (s *Store) Adjust(store *sessioncache.Store) error {
	if v, ok := store.Persister().Backend().(*Valkey); ok {
		v.SetTTL(time.Duration(s.TTL))
	}
	return store.SetLimits(s.memory())
}

func (s *Store) memory() sessioncache.Options {
	return sessioncache.Options{IdleTTL: min(time.Duration(s.TTL), sessioncache.DefaultIdleTTL)}
}

// UnmarshalCaddyfile sets the store up from Caddyfile tokens. Syntax:
//
//	valkey [cluster|sentinel <master>] {
//		address    <host:port>...
//		username   <name or placeholder>
//		password   <placeholder>
//		sentinel_username <name or placeholder>
//		sentinel_password <placeholder>
//		db         <number>
//		tls [insecure] {
//			ca          <file>
//			cert        <file> <key file>
//			server_name <name>
//		}
//		key_prefix <text>
//		timeout    <duration>
//		ttl        <duration>
//		key        <key or placeholder>
//		key_file   <file>
//	}
func (s *Store) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the store
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "cluster":
		s.Mode = args[0]
	case len(args) == 2 && args[0] == "sentinel":
		s.Mode, s.Master = args[0], args[1]
	case len(args) > 0:
		return d.ArgErr()
	}
	return option.Block(d, "store valkey", option.Options{
		"address":           option.Names(&s.Addresses),
		"username":          option.Word(&s.Username),
		"password":          option.Word(&s.Password),
		"sentinel_username": option.Checked(option.Word(&s.SentinelUsername), s.Validate),
		"sentinel_password": option.Checked(option.Word(&s.SentinelPassword), s.Validate),
		"db": option.Checked(option.Parsed(func(v string) (err error) {
			s.DB,
				err = strconv.Atoi(v)
			return err
		}, "a whole number"), s.Validate),
		"tls":        option.Once(func() bool { return s.TLS != nil }, s.parseTLS),
		"key_prefix": option.Word(&s.KeyPrefix),
		"timeout":    option.Checked(option.Duration(&s.Timeout), s.Validate),
		"ttl":        option.Checked(option.Duration(&s.TTL), s.Validate),
		"key":        option.Checked(option.Word(&s.Key), s.Validate),
		"key_file":   option.Checked(option.Word(&s.KeyFile), s.Validate),
	})
}

func (s *Store) parseTLS(d *caddyfile.Dispenser) error {
	s.TLS = new(reverseproxy.TLSConfig)
	switch args := d.RemainingArgs(); {
	case len(args) == 1 && args[0] == "insecure":
		s.TLS.InsecureSkipVerify = true
	case len(args) > 0:
		return d.ArgErr()
	}
	return option.Block(d, "tls", option.Options{
		"ca": option.Once(func() bool { return s.TLS.CARaw != nil }, func(d *caddyfile.Dispenser) error {
			var file string
			if !d.Args(&file) || d.NextArg() {
				return d.ArgErr()
			}
			s.TLS.CARaw = caddyconfig.JSONModuleObject(caddytls.FileCAPool{TrustedCACertPEMFiles: []string{file}}, "provider",
				"file", nil)
			return nil
		}),
		"server_name": option.Word(&s.TLS.ServerName),
		"cert": option.Once(func() bool { return s.TLS.ClientCertificateFile != "" }, func(d *caddyfile.Dispenser) error {
			if !d.Args(&s.TLS.ClientCertificateFile, &s.TLS.ClientCertificateKeyFile) {
				return d.ArgErr()
			}
			return nil
		}),
	})
}
