"""Local files of Spark's JVM without a process for every file.

takes  the session
does   where Hadoop has no native library, its local file system starts `chmod` for every file that
       it makes, twice; a checkpoint has three files for each batch. Here it leaves files as the
       JVM makes them, by the umask of the process, and writes no checksum file beside them

The class is compiled in the JVM by Janino, which Spark brings along, and put in the place of the
one that Hadoop has cached. If any of that is not as expected, all stays as it was.
"""

from __future__ import annotations

import logging
from typing import Any

_LOG = logging.getLogger("viewmill")

_NAME = "viewmill.PlainLocalFiles"
_SOURCE = """
package viewmill;

import java.lang.reflect.Method;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class PlainLocalFiles extends LocalFileSystem {
    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) {}
    }

    public PlainLocalFiles() {
        super(new Raw());
    }

    public static void install(Configuration conf) throws Exception {
        URI local = URI.create("file:///");
        PlainLocalFiles files = new PlainLocalFiles();
        files.initialize(local, conf);
        files.setWriteChecksum(false);
        Class[] types = new Class[] {URI.class, Configuration.class, FileSystem.class};
        Method put = FileSystem.class.getDeclaredMethod("addFileSystemForTesting", types);
        put.setAccessible(true);
        put.invoke(null, new Object[] {local, conf, files});
    }
}
"""


def use_plain_files(spark: Any) -> bool:
    """Whether local files are written without other processes from now on."""
    jvm, conf = spark._jvm, spark._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileSystem
    files.getLocal(conf).setWriteChecksum(False)  # offsets are written 16 ms faster
    if conf.get("fs.permissions.umask-mode", "022") != "022" or _is_installed(files, conf):
        return _is_installed(files, conf)
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(files.getLocal(conf).getClass().getClassLoader())
        compiler.cook(_SOURCE)
        made = compiler.getClassLoader().loadClass(_NAME)
        install = next(each for each in made.getMethods() if each.getName() == "install")
        given = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
        given[0] = conf
        install.invoke(None, given)
    except Exception as why:  # noqa: BLE001 (another Hadoop, another Janino: it works without)
        _LOG.debug("local files stay as Hadoop writes them: %s", why)
    return _is_installed(files, conf)


def _is_installed(files: Any, conf: Any) -> bool:
    return bool(files.getLocal(conf).getClass().getName() == _NAME)
