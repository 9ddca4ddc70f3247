#!/usr/bin/env python3
"""What crashes leave of a pool, and what it is after its recovery, is whole for OpenZFS's zdb: every checksum, no leak.

    test_images.py TEST_CRASH LAYOUT

TARN_CRASH_KEEP names a folder for the disks that zdb did not find whole. Exit 77 with a word why where zdb cannot be had.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
POOL = 'lab'


def zdb_path():
    fetch = subprocess.run([os.path.join(SOURCE, 'dev/fetch-zdb.sh')], capture_output=True, text=True)
    if fetch.returncode:
        print('skipped:', (fetch.stderr or fetch.stdout).strip() or 'no zdb')
        sys.exit(77)
    return os.path.join(fetch.stdout.strip(), 'zdb')


def complaint(zdb, folder):
    """'' when it is whole."""
    ran = subprocess.run([zdb, '-e', '-p', folder, '-bcc', POOL], capture_output=True, text=True, errors='replace')
    text = ran.stdout + ran.stderr
    if ran.returncode == 0 and 'No leaks' in text and 'error' not in text.replace('no errors', ''):
        return ''
    return '%s: exit status %d\n%s' % (folder, ran.returncode, text[-3000:])


def main():
    program, layout = sys.argv[1:3]
    zdb = zdb_path()
    with tempfile.TemporaryDirectory(prefix='tarn-crash-') as top:
        ran = subprocess.run([program, layout, '--images', top])
        folders = sorted(entry.path for entry in os.scandir(top))
        if not folders:
            sys.exit('no images were written')
        # zdb sleeps for seconds at each end, whatever it is asked: all of them at once.
        with concurrent.futures.ThreadPoolExecutor(6) as runners:
            found = list(runners.map(lambda folder: complaint(zdb, folder), folders))
        for folder, words in zip(folders, found):
            if words:
                print(words)
                if os.environ.get('TARN_CRASH_KEEP'):
                    shutil.copytree(folder, os.path.join(os.environ['TARN_CRASH_KEEP'], os.path.basename(folder)))
        bad = sum(1 for words in found if words)
        print('%d images for zdb, %d not whole' % (len(folders), bad))
        sys.exit(1 if bad or ran.returncode else 0)


main()
