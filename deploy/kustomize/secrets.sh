#!/bin/sh
# Writes new secrets of the platform into secrets.env beside this file. Keep it: with other keys the platform could not
# read what it has encrypted.
set -eu
umask 077
cd "$(dirname "$0")"
if [ -e secrets.env ]; then
  echo "deploy/kustomize/secrets.env is there already, and stays" >&2
  exit 1
fi
random() { head -c 32 /dev/urandom | base64 | tr -d '\n'; }
key=$(random | tr -d '+/=')
cat > secrets.env.new <<end
token=$(random | tr -d '+/=')
secret-keys=$(random)
access-key=steelyard
secret-key=$key
credentials={"AWS_ENDPOINT_URL":"http://steelyard-storage.steelyard.svc:9000","AWS_ACCESS_KEY_ID":"steelyard","AWS_SECRET_ACCESS_KEY":"$key","AWS_REGION":"us-east-1","AWS_ALLOW_HTTP":"true","AWS_VIRTUAL_HOSTED_STYLE_REQUEST":"false"}
end
mv secrets.env.new secrets.env
